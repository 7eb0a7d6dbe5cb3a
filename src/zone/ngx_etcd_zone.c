
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <sys/eventfd.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_zone.h>


/* about 100 us in total: a commit of a few changes takes less than 1 us */

#define NGX_ETCD_ZONE_SPINS    256
#define NGX_ETCD_ZONE_YIELDS   16

#define NGX_ETCD_ZONE_PATIENT  32

/* attempts of the master, and the pause between them in ms */

#define NGX_ETCD_ZONE_MASTER_TRIES  100
#define NGX_ETCD_ZONE_MASTER_PAUSE  10

/* a few us: spinning processes check the mutex many times meanwhile */

#define NGX_ETCD_ZONE_PAUSE    64


ngx_int_t
ngx_etcd_zone_init(ngx_etcd_zone_t *zone, ngx_shm_zone_t *shm_zone,
    ngx_etcd_zone_t *old)
{
    ngx_uint_t               i;
    ngx_etcd_zone_shared_t  *sh;

    zone->shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;
    zone->row = NGX_ETCD_ZONE_NO_ROW;

    if (old != NULL || shm_zone->shm.exists) {
        zone->sh = zone->shpool->data;
        zone->epoch = zone->sh->epoch + 1;
        return NGX_OK;
    }

    sh = ngx_slab_calloc(zone->shpool, sizeof(ngx_etcd_zone_shared_t));
    if (sh == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < NGX_ETCD_ZONE_LISTS; i++) {
        ngx_queue_init(&sh->objects[i]);
        ngx_queue_init(&sh->unused[i]);
    }

    sh->endpoints.current = -1;

    /* The caller that needs memory logs a full zone, once. */
    zone->shpool->log_nomem = 0;

    zone->shpool->data = sh;
    zone->sh = sh;
    zone->epoch = 1;

    return NGX_OK;
}


void
ngx_etcd_zone_next_epoch(ngx_etcd_zone_t *zone, ngx_etcd_zone_t *former)
{
    zone->sh->epoch = zone->epoch;
    zone->sh->id.epoch = zone->epoch;

    if (former != NULL && former->sh != zone->sh) {
        former->sh->epoch++;
        former->sh->id.epoch++;
    }
}


ngx_uint_t
ngx_etcd_zone_newest(ngx_etcd_zone_t *zone)
{
    return zone->sh->epoch == zone->epoch;
}


ngx_int_t
ngx_etcd_zone_lock(ngx_etcd_zone_t *zone)
{
    ngx_uint_t  i, n;

    for (i = 0; i < NGX_ETCD_ZONE_YIELDS; i++) {

        for (n = 0; n < NGX_ETCD_ZONE_SPINS; n++) {

            if (ngx_shmtx_trylock(&zone->shpool->mutex)) {
                ngx_etcd_batch_finish(&zone->sh->batch, zone->shpool);
                return NGX_OK;
            }

            if (ngx_ncpu == 1) {
                break;
            }

            ngx_cpu_pause();
        }

        ngx_sched_yield();
    }

    return NGX_AGAIN;
}


ngx_int_t
ngx_etcd_zone_lock_patient(ngx_etcd_zone_t *zone)
{
    ngx_uint_t  i, n, master;

    master = (ngx_process == NGX_PROCESS_MASTER);
    n = master ? NGX_ETCD_ZONE_MASTER_TRIES : NGX_ETCD_ZONE_PATIENT;

    for (i = 0; i < n; i++) {
        if (ngx_etcd_zone_lock(zone) == NGX_OK) {
            return NGX_OK;
        }

        if (master) {
            ngx_msleep(NGX_ETCD_ZONE_MASTER_PAUSE);
        }
    }

    return NGX_AGAIN;
}


void
ngx_etcd_zone_unlock(ngx_etcd_zone_t *zone)
{
    ngx_shmtx_unlock(&zone->shpool->mutex);
}


ngx_int_t
ngx_etcd_zone_find(ngx_etcd_zone_t *zone, ngx_etcd_shared_map_t *map,
    uint64_t hash, ngx_etcd_shared_map_match_pt match, void *data,
    uint64_t *version)
{
    ngx_int_t                rc;
    ngx_etcd_shared_node_t  *node;

    rc = ngx_etcd_shared_map_find(zone->shpool, map, hash, match, data,
                                  version);

    if (rc != NGX_AGAIN || ngx_etcd_zone_lock(zone) != NGX_OK) {
        return rc;
    }

    *version = map->lock;

    node = ngx_etcd_shared_map_find_locked(zone->shpool, map, hash, match,
                                           data);

    ngx_etcd_zone_unlock(zone);

    return (node != NULL) ? NGX_OK : NGX_DECLINED;
}


ngx_int_t
ngx_etcd_zone_lock_owned(ngx_etcd_zone_t *zone, ngx_uint_t force)
{
    if (ngx_etcd_zone_lock_patient(zone) != NGX_OK) {
        return NGX_BUSY;
    }

    if (!force && !ngx_etcd_zone_owned(zone)) {
        ngx_etcd_zone_unlock(zone);
        return NGX_DECLINED;
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_zone_work(ngx_etcd_zone_t *zone, ngx_uint_t force,
    ngx_uint_t (*piece)(ngx_etcd_zone_t *zone, void *data), void *data,
    uint64_t until)
{
    ngx_int_t   rc;
    ngx_uint_t  more;

    for ( ;; ) {
        rc = ngx_etcd_zone_lock_owned(zone, force);
        if (rc != NGX_OK) {
            return rc;
        }

        more = piece(zone, data);

        ngx_etcd_zone_unlock(zone);

        if (!more) {
            return NGX_OK;
        }

        if (until != 0 && ngx_etcd_time_budget_now() >= until) {
            return NGX_AGAIN;
        }

        ngx_etcd_zone_pause();
    }
}


void
ngx_etcd_zone_pause(void)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_ZONE_PAUSE; i++) {
        ngx_cpu_pause();
    }

    /* a process that waits may need this processor to look */

    ngx_sched_yield();
}


void
ngx_etcd_zone_stalled(ngx_etcd_zone_t *zone, ngx_uint_t us)
{
    ngx_atomic_uint_t  longest;

    do {
        longest = zone->sh->stall;
    } while (us > longest
             && !ngx_atomic_cmp_set(&zone->sh->stall, longest, us));
}


int64_t
ngx_etcd_zone_staleness(ngx_etcd_zone_t *zone)
{
    return ngx_etcd_zone_since(&zone->sh->cluster.proved);
}


int64_t
ngx_etcd_zone_since(ngx_etcd_atomic64_t *proved)
{
    uint64_t  now, time;

    /* Read the time first: a later proof must not exceed "now". */

    time = __atomic_load_n(proved, __ATOMIC_ACQUIRE);
    now = ngx_etcd_clock();

    if (time == 0) {
        return -1;
    }

    return (now > time) ? (int64_t) (now - time) : 0;
}


void
ngx_etcd_zone_prove(ngx_etcd_atomic64_t *proved, uint64_t time)
{
    if (time > *proved) {
        __atomic_store_n(proved, time, __ATOMIC_RELEASE);
    }
}


void
ngx_etcd_zone_free(ngx_etcd_zone_t *zone, void *link)
{
    void  **part, *p;

    part = link;
    p = *part;
    *part = NULL;

    ngx_memory_barrier();

    if (p != NULL) {
        ngx_slab_free_locked(zone->shpool, p);
    }
}


size_t
ngx_etcd_zone_used(ngx_etcd_zone_t *zone)
{
    ngx_slab_pool_t  *shpool;

    shpool = zone->shpool;

    return (size_t) (shpool->end - (u_char *) shpool)
           - (shpool->pfree << ngx_pagesize_shift);
}


uint64_t
ngx_etcd_zone_owner(ngx_etcd_zone_t *zone)
{
    return __atomic_load_n(&zone->sh->owner, __ATOMIC_ACQUIRE);
}


static uint64_t
ngx_etcd_zone_self(ngx_etcd_zone_t *zone)
{
    return (uint64_t) zone->epoch << 32 | (uint32_t) ngx_pid;
}


ngx_uint_t
ngx_etcd_zone_owned(ngx_etcd_zone_t *zone)
{
    return ngx_etcd_zone_owner(zone) == ngx_etcd_zone_self(zone);
}


ngx_int_t
ngx_etcd_zone_claim(ngx_etcd_zone_t *zone, uint64_t seen)
{
    if (!__atomic_compare_exchange_n(&zone->sh->owner, &seen,
                                     ngx_etcd_zone_self(zone), 0,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    {
        return NGX_DECLINED;
    }

    zone->sh->heartbeat = ngx_current_msec;
    zone->retiring = 0;

    return NGX_OK;
}


void
ngx_etcd_zone_release(ngx_etcd_zone_t *zone)
{
    uint64_t  self;

    self = ngx_etcd_zone_self(zone);

    (void) __atomic_compare_exchange_n(&zone->sh->owner, &self, 0, 0,
                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}


ngx_int_t
ngx_etcd_zone_set_endpoints(ngx_etcd_zone_t *zone,
    ngx_etcd_zone_endpoints_t *endpoints)
{
    ngx_int_t  rc;

    rc = ngx_etcd_zone_lock_owned(zone, 0);

    if (rc == NGX_OK) {
        ngx_etcd_seqlock_write(&zone->sh->endpoints_lock);

        zone->sh->endpoints = *endpoints;

        ngx_etcd_seqlock_written(&zone->sh->endpoints_lock);

        ngx_etcd_zone_unlock(zone);
    }

    return rc;
}


ngx_int_t
ngx_etcd_zone_get_endpoints(ngx_etcd_zone_t *zone,
    ngx_etcd_zone_endpoints_t *endpoints)
{
    ngx_etcd_seqlock_reader_t  reader;

    ngx_etcd_seqlock_read(&reader, &zone->sh->endpoints_lock, 1);

    return ngx_etcd_seqlock_copy(&reader, endpoints, &zone->sh->endpoints,
                                 sizeof(ngx_etcd_zone_endpoints_t));
}


void
ngx_etcd_zone_event(ngx_etcd_zone_t *zone, ngx_str_t *name, ngx_str_t *key,
    ngx_etcd_change_e change, uint64_t revision)
{
    ngx_time_t             *tp;
    ngx_etcd_zone_event_t  *event;

    tp = ngx_timeofday();

    /* Fill a slot that is not shown: the process may be killed meanwhile. */

    event = &zone->sh->events[zone->sh->nevents % (NGX_ETCD_ZONE_EVENTS + 1)];

    event->time = tp->sec;
    event->msec = tp->msec;
    event->change = change;
    event->revision = revision;
    event->name_len = ngx_min(name->len, NGX_ETCD_ZONE_EVENT_LEN);
    event->key_len = ngx_min(key->len, NGX_ETCD_ZONE_EVENT_LEN);

    ngx_memcpy(event->name, name->data, event->name_len);
    ngx_memcpy(event->key, key->data, event->key_len);

    ngx_memory_barrier();

    zone->sh->nevents++;
}


ngx_int_t
ngx_etcd_zone_get_events(ngx_etcd_zone_t *zone, ngx_etcd_zone_event_t *events,
    ngx_uint_t *n)
{
    ngx_uint_t               i;
    ngx_etcd_zone_shared_t  *sh;

    if (ngx_etcd_zone_lock(zone) != NGX_OK) {
        return NGX_AGAIN;
    }

    sh = zone->sh;
    *n = ngx_min(sh->nevents, NGX_ETCD_ZONE_EVENTS);

    for (i = 0; i < *n; i++) {
        events[i] = sh->events[(sh->nevents - 1 - i)
                               % (NGX_ETCD_ZONE_EVENTS + 1)];
    }

    ngx_etcd_zone_unlock(zone);

    return NGX_OK;
}


/* two URLs of a cluster with the same id are as good as impossible */

static uint64_t
ngx_etcd_server_versions_id(ngx_str_t *url)
{
    return (uint64_t) ngx_min(url->len, 0xffffffff) << 32
           | ngx_crc32_long(url->data, url->len);
}


/* Returns the place of that id, or a free one, or else any. */

static ngx_etcd_zone_version_t *
ngx_etcd_server_versions_find(ngx_etcd_zone_t *zone, uint64_t id)
{
    ngx_uint_t                i;
    ngx_etcd_zone_version_t  *places, *place;

    places = zone->sh->versions;

    for (i = 0; i < NGX_ETCD_ZONE_VERSIONS; i++) {
        place = &places[(id + i) % NGX_ETCD_ZONE_VERSIONS];

        if (place->id == id || place->id == 0) {
            return place;
        }
    }

    return &places[id % NGX_ETCD_ZONE_VERSIONS];
}


void
ngx_etcd_server_versions_set(ngx_etcd_zone_t *zone, ngx_str_t *url,
    uint64_t version)
{
    uint64_t                  id, former;
    ngx_etcd_zone_version_t  *place;

    id = ngx_etcd_server_versions_id(url);
    place = ngx_etcd_server_versions_find(zone, id);

    former = place->id;

    /*
     * A place of another endpoint, which was not found because all are taken,
     * is of this one from now on.
     */

    if (former != id) {
        place->version = 0;

        if (!__atomic_compare_exchange_n(&place->id, &former, id, 0,
                                         __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
            && former != id)
        {
            return;
        }
    }

    __atomic_store_n(&place->version, version, __ATOMIC_RELEASE);
}


uint64_t
ngx_etcd_server_versions_get(ngx_etcd_zone_t *zone, ngx_str_t *url)
{
    uint64_t                  id, version;
    ngx_etcd_zone_version_t  *place;

    id = ngx_etcd_server_versions_id(url);
    place = ngx_etcd_server_versions_find(zone, id);

    version = __atomic_load_n(&place->version, __ATOMIC_ACQUIRE);

    return (place->id == id) ? version : 0;
}


ngx_uint_t
ngx_etcd_server_versions_first(ngx_etcd_zone_t *zone, ngx_uint_t what)
{
    return (__atomic_fetch_or(&zone->sh->warned, what, __ATOMIC_ACQ_REL) & what)
           == 0;
}


ngx_fd_t
ngx_etcd_wakeup_create(ngx_log_t *log)
{
    ngx_fd_t  fd;

    fd = eventfd(0, EFD_CLOEXEC|EFD_NONBLOCK);

    if (fd == -1) {
        ngx_log_error(NGX_LOG_WARN, log, ngx_errno,
                      "etcd: eventfd() failed, workers are woken by a timer");
        return NGX_ETCD_WAKEUP_NONE;
    }

    return fd;
}


ngx_int_t
ngx_etcd_wakeup_listen(ngx_cycle_t *cycle, ngx_fd_t fd,
    ngx_event_handler_pt handler, void *data)
{
    ngx_event_t       *rev;
    ngx_connection_t  *c;

    if (fd == NGX_ETCD_WAKEUP_NONE || !(ngx_event_flags & NGX_USE_CLEAR_EVENT))
    {
        return NGX_DECLINED;
    }

    c = ngx_get_connection(fd, cycle->log);

    if (c == NULL) {
        return NGX_ERROR;
    }

    c->data = data;
    c->idle = 1;

    rev = c->read;
    rev->handler = handler;
    rev->log = cycle->log;

    /*
     * Like the master's channel, the connection stays until the worker exits:
     * requests that are still served follow changes, and nginx does not
     * report an open socket.
     */

    rev->channel = 1;

    if (ngx_add_event(rev, NGX_READ_EVENT, NGX_CLEAR_EVENT) != NGX_OK) {
        ngx_free_connection(c);
        return NGX_ERROR;
    }

    return NGX_OK;
}


void
ngx_etcd_wakeup_signal(ngx_fd_t fd, ngx_log_t *log)
{
    uint64_t  one;

    if (fd == NGX_ETCD_WAKEUP_NONE) {
        return;
    }

    one = 1;

    if (write(fd, &one, sizeof(uint64_t)) == -1 && ngx_errno != NGX_EAGAIN) {
        ngx_log_error(NGX_LOG_ERR, log, ngx_errno,
                      "etcd: write() to eventfd failed");
    }
}
