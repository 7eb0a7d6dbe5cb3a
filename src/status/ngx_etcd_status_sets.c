
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


static void
ngx_etcd_status_member_check(ngx_etcd_status_member_t *member,
    ngx_etcd_view_member_t *view)
{
    ngx_etcd_note_t  *note;

    note = &view->note;

    ngx_str_null(&member->check);
    member->check_for = NGX_ETCD_STATUS_ABSENT;
    member->check_took = NGX_ETCD_STATUS_ABSENT;
    member->check_row = NGX_ETCD_STATUS_ABSENT;
    member->check_up = NGX_ETCD_STATUS_ABSENT;

    if (note->result == NGX_ETCD_CHECK_NONE) {
        return;
    }

    ngx_etcd_check_result_text(note->result, note->status, member->check_text,
                               &member->check);

    member->check_for = ngx_max((int32_t) ((uint32_t) ngx_time()
                                           - note->since), 0);
    member->check_took = note->took;
    member->check_row = note->row;
    member->check_up = !(view->verdict & NGX_ETCD_VERDICT_CHECKS);
}


static int64_t
ngx_etcd_status_member_unless(uint32_t value, uint32_t otherwise)
{
    return (value == otherwise) ? NGX_ETCD_STATUS_ABSENT : (int64_t) value;
}


static void
ngx_etcd_status_member_read(ngx_etcd_status_read_t *read,
    ngx_etcd_member_pack_t *record)
{
    ngx_etcd_member_attr_t  *attr;

    attr = &record->attr;

    read->max_conns = ngx_etcd_status_member_unless(attr->max_conns, 0);
    read->max_fails = ngx_etcd_status_member_unless(attr->max_fails, 1);
    read->fail_timeout = ngx_etcd_status_member_unless(attr->fail_timeout, 10);
    read->slow_start = ngx_etcd_status_member_unless(attr->slow_start, 0);
    read->priority = ngx_etcd_status_member_unless(attr->priority, 0);

    read->route.len = record->route.len;
    read->route.data = record->route.len ? record->route.data : NULL;

    ngx_str_null(&read->drained_by);

    if (attr->ordered) {
        ngx_str_set(&read->drained_by, "key");

    } else if (attr->drain) {
        ngx_str_set(&read->drained_by, "value");
    }
}


ngx_etcd_member_state_e
ngx_etcd_status_member_state(ngx_uint_t lowest,
    ngx_etcd_member_pack_t *record, ngx_etcd_view_member_t *view)
{
    ngx_etcd_member_condition_t  member;

    member.attr = &record->attr;
    member.fails = view->fails;
    member.idle = view->idle;
    member.conns = view->conns;
    member.verdict = view->verdict;
    member.shadowed = (view->hidden_by.data != NULL);
    member.unresolved = record->unresolved;
    member.held = view->held;
    member.backup = record->attr.backup || record->attr.priority > lowest;

    return ngx_etcd_health_state(&member);
}


void
ngx_etcd_status_member_set(ngx_etcd_status_member_t *member,
    ngx_etcd_status_upstream_t *upstream, ngx_etcd_view_member_t *view)
{
    ngx_etcd_member_pack_t  record;

    ngx_etcd_member_pack_read(&record, view->payload);

    member->view = *view;

    if (!view->counted || !upstream->service->rules.outcomes) {
        ngx_etcd_status_object_uncounted(&member->view.answers);
    }

    member->address = record.name;
    member->name = record.name;
    member->weight = record.attr.weight;
    member->near = upstream->service->rules.spill ? record.attr.near
                                                  : NGX_ETCD_STATUS_ABSENT;
    member->state = ngx_etcd_status_member_states[
                  ngx_etcd_status_member_state(upstream->lowest, &record,
                                               view)];
    ngx_etcd_status_member_read(&member->read, &record);
    member->failed = (view->failed < 0) ? NGX_ETCD_STATUS_ABSENT : view->failed;
    member->ejected = NGX_ETCD_STATUS_ABSENT;

    if (view->note.until != 0) {
        member->ejected = ngx_max((int32_t) (view->note.until
                                             - (uint32_t) ngx_time()), 0);
    }

    ngx_etcd_status_member_check(member, view);

    member->cluster = upstream->cluster;
    member->module = upstream->module;
    member->upstream = upstream->name;
    member->set = upstream->set;

    ngx_str_null(&member->host);
    ngx_str_null(&member->reason);

    ngx_str_null(&member->lease);

    if (view->lease != 0) {
        member->lease.data = member->lease_text;
        member->lease.len = ngx_sprintf(member->lease_text, "%xL", view->lease)
                            - member->lease_text;
    }

    if (record.host.len != 0) {
        member->host.data = member->host_text;
        member->host.len = ngx_sprintf(member->host_text, "%V:%ui",
                                       &record.host, (ngx_uint_t) record.port)
                           - member->host_text;

        if (record.unresolved) {
            member->reason = record.name;

        } else if (record.refused + record.beyond != 0) {
            member->reason.data = member->reason_text;
            member->reason.len = ngx_snprintf(member->reason_text,
                                              sizeof(member->reason_text),
                                     "not all addresses of its host are used: "
                                     "%ui may not be, %ui are too many",
                                              record.refused, record.beyond)
                                 - member->reason_text;
        }
    }

    if (record.unresolved) {
        member->address = member->host;
    }
}


void
ngx_etcd_status_sets_start(ngx_etcd_status_t *status, uint32_t after)
{
    status->list.nelts = 0;
    status->walk.listed = 0;
    status->walk.reading = 0;
    status->walk.shown = 0;
    status->walk.all = 0;
    status->walk.last = after;
}


/* NGX_DONE: there are no more sets. */

static ngx_int_t
ngx_etcd_status_sets_list(ngx_etcd_status_t *status,
    ngx_etcd_catalog_conf_t *catalog)
{
    ngx_int_t                     i, n;
    ngx_str_t                     prefixes[NGX_ETCD_STATUS_SETS_PIECE];
    ngx_etcd_set_list_t           list;
    ngx_etcd_set_found_t          found[NGX_ETCD_STATUS_SETS_PIECE];
    ngx_etcd_status_sets_item_t  *item;

    ngx_etcd_status_destroy(status);

    status->list.nelts = 0;
    status->walk.listed = 0;

    status->temp = ngx_create_pool(4096, status->pool->log);

    if (status->temp == NULL
        || ngx_array_init(&status->list, status->temp,
                          NGX_ETCD_STATUS_SETS_PIECE,
                          sizeof(ngx_etcd_status_sets_item_t))
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    list.id = catalog->map_id;
    list.after = status->walk.last;
    list.room = NGX_ETCD_STATUS_SETS_PIECE;
    list.found = found;
    list.prefixes = prefixes;

    n = ngx_etcd_set_map_list(catalog->service.zone, catalog->map, &list,
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
    size_t      i;
    ngx_str_t  *like;

    like = &status->asked.like;

    if (like->len == 0 || status->walk.all) {
        return 1;
    }

    for (i = 0; i + like->len <= name->len; i++) {
        if (ngx_memcmp(name->data + i, like->data, like->len) == 0) {
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

    if (status->walk.listed == status->list.nelts) {
        rc = ngx_etcd_status_sets_list(status, upstream->catalog);

        if (rc != NGX_OK) {
            return rc;
        }
    }

    item = status->list.elts;
    item += status->walk.listed;

    rc = ngx_etcd_status_sets_wanted(status, &item->name)
         ? ngx_etcd_view_open(&status->view, upstream->service->zone,
                              item->found.set, item->found.set_id)
         : NGX_DECLINED;

    if (rc == NGX_AGAIN) {
        return NGX_BUSY;
    }

    status->walk.listed++;
    status->walk.last = item->found.set_id;

    if (rc == NGX_DECLINED) {
        return NGX_AGAIN;
    }

    set = &status->object.set;

    ngx_memzero(set, sizeof(ngx_etcd_status_set_t));

    set->name = item->name;
    set->lowest = NGX_ETCD_MEMBER_MAX_PRIORITY;
    set->sums.waiting = item->found.set->waiting
                        ? ngx_etcd_gauge_sum(item->found.set->waiting) : 0;
    set->sums.queued = ngx_etcd_member_set_queue_sum(item->found.set);
    set->sums.checks = item->found.set->checks.done;
    set->sums.check_failures = item->found.set->checks.failed;
    set->sums.panic = item->found.set->checks.panic;

    status->walk.reading = 1;

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
    ngx_etcd_member_state_e        state;

    set = &status->object.set;

    for (i = 0; i < status->view.n; i++) {
        member = &status->view.members[i];

        if (member->hidden_by.data != NULL) {
            continue;
        }

        ngx_etcd_member_pack_read(&record, member->payload);

        state = ngx_etcd_status_member_state(set->lowest, &record, member);
        priority = record.attr.priority;

        if (state == NGX_ETCD_MEMBER_UP && priority < set->lowest) {
            set->lowest = priority;
            set->sums.states[NGX_ETCD_MEMBER_BACKUP]
                += set->sums.states[NGX_ETCD_MEMBER_UP];
            set->sums.states[NGX_ETCD_MEMBER_UP] = 0;
        }

        set->sums.states[state]++;
        set->members++;
        set->sums.conns += member->conns;
        set->sums.fails += member->fails;
    }

    set->up = set->sums.states[NGX_ETCD_MEMBER_UP];
}


ngx_int_t
ngx_etcd_status_sets_read(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream)
{
    ngx_int_t  rc;

    status->view.n = 0;

    if (!status->walk.reading) {
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

    status->object.set.sums.requests = ngx_etcd_view_requests(&status->view);
    ngx_etcd_status_object_unused(&status->object.set.sums, &status->view);
    ngx_etcd_status_object_set(&status->object.set, upstream->service,
                               status->view.set);
    status->walk.reading = 0;

    return NGX_OK;
}


/* Sets that are down come first: the last one that is not makes room. */

static ngx_int_t
ngx_etcd_status_sets_trouble(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream, ngx_uint_t down)
{
    u_char                     *p;
    ngx_uint_t                  n;
    ngx_etcd_status_set_t      *set;
    ngx_etcd_status_list_t     *list;
    ngx_etcd_status_trouble_t  *trouble;

    set = &status->object.set;
    list = &upstream->map.troubles;

    n = down ? ngx_min((ngx_uint_t) upstream->map.down - 1,
                       NGX_ETCD_STATUS_TROUBLES)
             : list->nelts;

    if (n == NGX_ETCD_STATUS_TROUBLES) {
        return NGX_OK;
    }

    p = ngx_pnalloc(status->pool, set->name.len + 1);
    if (p == NULL) {
        return NGX_ERROR;
    }

    list->nelts = ngx_min(list->nelts + 1, NGX_ETCD_STATUS_TROUBLES);

    trouble = list->elts;
    trouble += n;

    ngx_memmove(trouble + 1, trouble,
                (list->nelts - n - 1) * sizeof(ngx_etcd_status_trouble_t));

    trouble->name.data = p;
    trouble->name.len = set->name.len;
    ngx_memcpy(p, set->name.data, set->name.len);

    trouble->state = set->state;
    trouble->reason = set->reason;

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_status_sets_add_sums(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream)
{
    ngx_uint_t               i;
    ngx_etcd_status_set_t   *set;
    ngx_etcd_status_sums_t  *sums;

    set = &status->object.set;
    sums = &upstream->sums;

    sums->waiting += set->sums.waiting;
    sums->requests += set->sums.requests;
    sums->conns += set->sums.conns;
    sums->fails += set->sums.fails;

    if (sums->queued != NGX_ETCD_STATUS_ABSENT) {
        sums->queued += set->sums.queued;
    }

    if (sums->checks != NGX_ETCD_STATUS_ABSENT) {
        sums->checks += set->sums.checks;
        sums->check_failures += set->sums.check_failures;
        sums->panic += set->sums.panic;
    }

    for (i = 0; i < NGX_ETCD_MEMBER_STATES; i++) {
        sums->states[i] += set->sums.states[i];
    }

    for (i = 0; i < NGX_ETCD_STATUS_UNUSED; i++) {
        sums->unused[i] += set->sums.unused[i];
    }

    if (set->state.data == ngx_etcd_status_upstream_states[0].data) {
        return NGX_OK;
    }

    if (set->state.data == ngx_etcd_status_upstream_states[1].data) {
        upstream->map.degraded++;
        return ngx_etcd_status_sets_trouble(status, upstream, 0);
    }

    upstream->map.down++;
    return ngx_etcd_status_sets_trouble(status, upstream, 1);
}


ngx_int_t
ngx_etcd_status_sets_sum(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream)
{
    ngx_int_t                rc;
    ngx_etcd_status_list_t  *list;

    list = &upstream->map.troubles;

    if (list->elts == NULL) {
        list->size = sizeof(ngx_etcd_status_trouble_t);
        list->elts = ngx_palloc(status->pool,
                                NGX_ETCD_STATUS_TROUBLES * list->size);
        if (list->elts == NULL) {
            return NGX_ERROR;
        }

        ngx_etcd_status_sets_start(status, 0);
        status->walk.all = 1;
    }

    rc = ngx_etcd_status_sets_read(status, upstream);

    if (rc == NGX_DONE) {
        ngx_etcd_status_object_sets(upstream, status->walk.shown);
        return NGX_OK;
    }

    if (rc != NGX_OK) {
        return rc;
    }

    status->walk.shown++;

    rc = ngx_etcd_status_sets_add_sums(status, upstream);

    return (rc == NGX_OK) ? NGX_AGAIN : rc;
}


/* NGX_AGAIN: the set is found, and its view is open. */

static ngx_int_t
ngx_etcd_status_sets_search(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream)
{
    u_char                      *p;
    ngx_int_t                    rc;
    ngx_str_t                    prefix, *like;
    ngx_etcd_pattern_t          *pattern;
    ngx_etcd_set_found_t         found;
    ngx_etcd_cached_table_t     *cached;
    ngx_etcd_service_conf_t     *service;
    ngx_etcd_catalog_conf_t     *catalog;
    ngx_etcd_status_upstream_t  *one;

    catalog = upstream->catalog;
    pattern = &catalog->pattern;
    like = &status->asked.like;

    if (like->len == 0 || like->len > NGX_ETCD_PATTERN_PREFIX) {
        return NGX_DECLINED;
    }

    prefix.len = pattern->literal.len + like->len + pattern->below;
    prefix.data = ngx_pnalloc(status->pool, prefix.len + 1);

    if (prefix.data == NULL) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(prefix.data, pattern->literal.data, pattern->literal.len);
    p = ngx_cpymem(p, like->data, like->len);
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
    service->outcome = NULL;

    one = &status->walk.one;
    *one = *upstream;

    ngx_memzero(&one->sums, sizeof(ngx_etcd_status_sums_t));

    one->catalog = NULL;
    one->service = service;
    one->prefix = prefix;
    one->map = ngx_etcd_status_no_map;

    /* without a request for the set, this worker has no table of it */

    cached = ngx_etcd_table_cache_find(&catalog->cache, &prefix);
    ngx_etcd_status_near_share(one, cached ? &cached->table : NULL);

    ngx_memzero(&status->object.set, sizeof(ngx_etcd_status_set_t));

    status->object.set.lowest = NGX_ETCD_MEMBER_MAX_PRIORITY;
    status->walk.reading = 1;

    return NGX_AGAIN;
}


ngx_int_t
ngx_etcd_status_sets_find(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream)
{
    ngx_int_t                    rc;
    ngx_etcd_status_set_t       *set;
    ngx_etcd_status_upstream_t  *one;

    if (!status->walk.reading) {
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

    set = &status->object.set;
    one = &status->walk.one;

    ngx_etcd_status_object_set(set, one->service, one->service->set);

    one->lowest = set->lowest;
    one->state = set->state;
    one->reason = set->reason;
    status->walk.reading = 0;

    return NGX_OK;
}
