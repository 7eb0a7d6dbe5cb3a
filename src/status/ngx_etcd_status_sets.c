
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_status.h>
#include <ngx_etcd_status_sets.h>


#define NGX_ETCD_STATUS_SETS_PIECE  128      /* sets that are listed at once */


/* a set that was listed */

typedef struct {
    ngx_etcd_set_found_t    found;
    ngx_str_t               name;
} ngx_etcd_status_sets_item_t;


void
ngx_etcd_status_sets_start(ngx_etcd_status_t *status, uint32_t after)
{
    status->list.nelts = 0;
    status->listed = 0;
    status->reading = 0;
    status->shown = 0;
    status->last_set = after;
}


/* NGX_DONE: there are no more sets. */

static ngx_int_t
ngx_etcd_status_sets_list(ngx_etcd_status_t *status,
    ngx_etcd_catalog_conf_t *catalog)
{
    ngx_int_t                     i, n;
    ngx_str_t                     prefixes[NGX_ETCD_STATUS_SETS_PIECE];
    ngx_etcd_set_found_t          found[NGX_ETCD_STATUS_SETS_PIECE];
    ngx_etcd_status_sets_item_t  *item;

    ngx_etcd_status_destroy(status);

    status->list.nelts = 0;
    status->listed = 0;

    status->temp = ngx_create_pool(4096, status->pool->log);

    if (status->temp == NULL
        || ngx_array_init(&status->list, status->temp,
                          NGX_ETCD_STATUS_SETS_PIECE,
                          sizeof(ngx_etcd_status_sets_item_t))
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    n = ngx_etcd_set_map_list(catalog->service.zone, catalog->map,
                              catalog->map_id, status->last_set, found,
                              prefixes, NGX_ETCD_STATUS_SETS_PIECE,
                              status->temp);
    if (n <= 0) {
        return (n == 0) ? NGX_DONE : (n == NGX_AGAIN) ? NGX_BUSY : n;
    }

    item = status->list.elts;

    for (i = 0; i < n; i++) {
        item[i].found = found[i];
        ngx_etcd_pattern_name(&catalog->pattern, &prefixes[i], &item[i].name);
    }

    status->list.nelts = n;

    return NGX_OK;
}


/* The name contains what was asked for. */

static ngx_uint_t
ngx_etcd_status_sets_wanted(ngx_etcd_status_t *status, ngx_str_t *name)
{
    size_t  i;

    if (status->like.len == 0) {
        return 1;
    }

    for (i = 0; i + status->like.len <= name->len; i++) {
        if (ngx_memcmp(name->data + i, status->like.data, status->like.len)
            == 0)
        {
            return 1;
        }
    }

    return 0;
}


/* NGX_AGAIN: the set has gone, or is not wanted. */

static ngx_int_t
ngx_etcd_status_sets_open(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream)
{
    ngx_int_t                     rc;
    ngx_etcd_status_set_t        *set;
    ngx_etcd_status_sets_item_t  *item;

    if (status->listed == status->list.nelts) {
        rc = ngx_etcd_status_sets_list(status, upstream->catalog);

        if (rc != NGX_OK) {
            return rc;
        }
    }

    item = status->list.elts;
    item += status->listed;

    rc = ngx_etcd_status_sets_wanted(status, &item->name)
         ? ngx_etcd_view_open(&status->view, upstream->service->zone,
                              item->found.set, item->found.set_id)
         : NGX_DECLINED;

    if (rc == NGX_AGAIN) {
        return NGX_BUSY;
    }

    status->listed++;
    status->last_set = item->found.set_id;

    if (rc == NGX_DECLINED) {
        return NGX_AGAIN;
    }

    set = &status->object.set;

    ngx_memzero(set, sizeof(ngx_etcd_status_set_t));

    set->name = item->name;
    set->lowest = NGX_ETCD_MEMBER_MAX_PRIORITY;
    set->waiting = item->found.set->waiting
                   ? ngx_etcd_gauge_sum(item->found.set->waiting) : 0;
    set->queued = ngx_etcd_member_set_queue_sum(item->found.set);
    set->checks = item->found.set->checks.done;
    set->check_failures = item->found.set->checks.failed;
    set->panic = item->found.set->checks.panic;

    status->reading = 1;

    return NGX_OK;
}


/* Members of a lower priority than all before make these backups. */

static void
ngx_etcd_status_sets_add(ngx_etcd_status_t *status)
{
    ngx_uint_t                      i, priority;
    ngx_etcd_status_set_t          *set;
    ngx_etcd_member_pack_t          record;
    ngx_etcd_view_member_t         *member;
    ngx_etcd_status_member_state_e  state;

    set = &status->object.set;

    for (i = 0; i < status->view.n; i++) {
        member = &status->view.members[i];

        ngx_etcd_member_pack_read(&record, member->payload);

        state = ngx_etcd_status_object_member_state(set->lowest, &record,
                                                    member);
        priority = record.attr.priority;

        if (state == NGX_ETCD_STATUS_UP && priority < set->lowest) {
            set->lowest = priority;
            set->states[NGX_ETCD_STATUS_BACKUP]
                += set->states[NGX_ETCD_STATUS_UP];
            set->states[NGX_ETCD_STATUS_UP] = 0;
        }

        set->states[state]++;
        set->members++;
        set->conns += member->conns;
        set->fails += member->fails;
    }

    set->up = set->states[NGX_ETCD_STATUS_UP];
}


ngx_int_t
ngx_etcd_status_sets_read(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream)
{
    ngx_int_t  rc;

    status->view.n = 0;

    if (!status->reading) {
        rc = ngx_etcd_status_sets_open(status, upstream);

        if (rc != NGX_OK) {
            return rc;
        }
    }

    rc = ngx_etcd_status_read(status);

    if (rc == NGX_BUSY) {
        return NGX_BUSY;
    }

    ngx_etcd_status_sets_add(status);

    if (rc != NGX_DONE) {
        return NGX_AGAIN;
    }

    status->object.set.requests = ngx_etcd_view_requests(&status->view);
    ngx_etcd_status_unused(status->object.set.unused, &status->view);
    status->reading = 0;

    return NGX_OK;
}


ngx_int_t
ngx_etcd_status_sets_waiting(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream)
{
    ngx_int_t                     rc;
    ngx_uint_t                    i;
    ngx_etcd_gauge_t             *waiting;
    ngx_etcd_status_sets_item_t  *item;

    if (upstream->service->awaited == 0) {
        return NGX_OK;
    }

    rc = ngx_etcd_status_sets_list(status, upstream->catalog);

    if (rc != NGX_OK) {
        return (rc == NGX_DONE) ? NGX_OK : rc;
    }

    item = status->list.elts;

    for (i = 0; i < status->list.nelts; i++) {
        waiting = item[i].found.set->waiting;

        upstream->waiting += waiting ? ngx_etcd_gauge_sum(waiting) : 0;

        if (upstream->queued != NGX_ETCD_STATUS_ABSENT) {
            upstream->queued +=
                            ngx_etcd_member_set_queue_sum(item[i].found.set);
        }

        status->last_set = item[i].found.set_id;
    }

    return NGX_AGAIN;
}


/* NGX_AGAIN: the set is found, and its view is open. */

static ngx_int_t
ngx_etcd_status_sets_search(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream)
{
    u_char                      *p;
    ngx_int_t                    rc;
    ngx_str_t                    prefix;
    ngx_etcd_pattern_t          *pattern;
    ngx_etcd_set_found_t         found;
    ngx_etcd_service_conf_t     *service;
    ngx_etcd_catalog_conf_t     *catalog;
    ngx_etcd_status_upstream_t  *one;

    catalog = upstream->catalog;
    pattern = &catalog->pattern;

    if (status->like.len == 0 || status->like.len > NGX_ETCD_PATTERN_PREFIX) {
        return NGX_DECLINED;
    }

    prefix.len = pattern->literal.len + status->like.len + pattern->below;
    prefix.data = ngx_pnalloc(status->pool, prefix.len + 1);

    if (prefix.data == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(prefix.data, pattern->literal.data, pattern->literal.len);
    p = ngx_cpymem(p, status->like.data, status->like.len);
    *p = '/';

    rc = ngx_etcd_set_map_find(catalog->service.zone, catalog->map, &prefix,
                               &found);
    if (rc != NGX_OK) {
        return (rc == NGX_AGAIN) ? NGX_BUSY : NGX_DECLINED;
    }

    rc = ngx_etcd_view_open(&status->view, catalog->service.zone, found.set,
                            found.set_id);
    if (rc != NGX_OK) {
        return (rc == NGX_AGAIN) ? NGX_BUSY : NGX_DECLINED;
    }

    service = ngx_palloc(status->pool, sizeof(ngx_etcd_service_conf_t));
    if (service == NULL) {
        return NGX_ERROR;
    }

    *service = catalog->service;

    service->catalog = 0;
    service->prefix = prefix;
    service->set = found.set;
    service->set_id = found.set_id;
    service->table = NULL;

    one = &status->one;
    *one = *upstream;

    one->catalog = NULL;
    one->service = service;
    one->prefix = prefix;
    one->sets = NGX_ETCD_STATUS_ABSENT;
    one->limit = NGX_ETCD_STATUS_ABSENT;
    one->over = NGX_ETCD_STATUS_ABSENT;
    one->unmatched = NGX_ETCD_STATUS_ABSENT;
    one->tables = NGX_ETCD_STATUS_ABSENT;

    /* without a request for the set, this worker has no table of it */

    ngx_etcd_status_near_share(one, ngx_etcd_table_cache_look(&catalog->cache,
                                                              &prefix));

    ngx_memzero(&status->object.set, sizeof(ngx_etcd_status_set_t));

    status->object.set.lowest = NGX_ETCD_MEMBER_MAX_PRIORITY;
    status->reading = 1;

    return NGX_AGAIN;
}


ngx_int_t
ngx_etcd_status_sets_find(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream)
{
    ngx_int_t  rc;

    if (!status->reading) {
        return ngx_etcd_status_sets_search(status, upstream);
    }

    /* the lowest priority has to be known before the first member is shown */

    rc = ngx_etcd_status_read(status);

    if (rc == NGX_BUSY) {
        return NGX_BUSY;
    }

    ngx_etcd_status_sets_add(status);

    if (rc != NGX_DONE) {
        return NGX_AGAIN;
    }

    status->one.lowest = status->object.set.lowest;
    status->reading = 0;

    return NGX_OK;
}
