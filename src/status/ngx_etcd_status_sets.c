
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_status_sets.h>


#define NGX_ETCD_STATUS_SETS_PIECE  128      /* sets that are listed at once */


/* a set that was listed */

typedef struct {
    ngx_etcd_set_found_t    found;
    ngx_str_t               name;
} ngx_etcd_status_sets_item_t;


static ngx_int_t ngx_etcd_status_sets_open(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream);
static ngx_uint_t ngx_etcd_status_sets_wanted(ngx_etcd_status_t *status,
    ngx_str_t *name);
static ngx_int_t ngx_etcd_status_sets_list(ngx_etcd_status_t *status,
    ngx_etcd_catalog_conf_t *catalog);
static void ngx_etcd_status_sets_add(ngx_etcd_status_t *status);


void
ngx_etcd_status_sets_start(ngx_etcd_status_t *status, uint32_t after)
{
    status->list.nelts = 0;
    status->listed = 0;
    status->reading = 0;
    status->shown = 0;
    status->last_set = after;
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
    status->reading = 0;

    return NGX_OK;
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
    set->waiting = item->found.set->waiting
                   ? ngx_etcd_gauge_sum(item->found.set->waiting) : 0;

    status->reading = 1;

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


static void
ngx_etcd_status_sets_add(ngx_etcd_status_t *status)
{
    ngx_uint_t                      i;
    ngx_etcd_status_set_t          *set;
    ngx_etcd_member_pack_t          record;
    ngx_etcd_view_member_t         *member;
    ngx_etcd_status_member_state_e  state;

    set = &status->object.set;

    for (i = 0; i < status->view.n; i++) {
        member = &status->view.members[i];

        ngx_etcd_member_pack_read(&record, member->payload);

        state = ngx_etcd_status_object_member_state(NULL, &record,
                                                    member->verdict);

        set->states[state]++;
        set->members++;
        set->up += (state == NGX_ETCD_STATUS_UP);
        set->conns += member->conns;
        set->fails += member->fails;
    }
}


ngx_int_t
ngx_etcd_status_sets_find(ngx_etcd_status_t *status,
    ngx_etcd_status_upstream_t *upstream)
{
    u_char                      *p;
    ngx_int_t                    rc;
    ngx_str_t                    prefix;
    ngx_etcd_pattern_t          *pattern;
    ngx_etcd_set_found_t         found;
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

    status->conf_one = catalog->service;

    one = &status->one;
    *one = *upstream;

    status->conf_one.catalog = 0;
    status->conf_one.prefix = prefix;
    status->conf_one.set = found.set;
    status->conf_one.set_id = found.set_id;
    status->conf_one.table = NULL;

    one->catalog = NULL;
    one->service = &status->conf_one;
    one->prefix = prefix;
    one->sets = NGX_ETCD_STATUS_ABSENT;
    one->limit = NGX_ETCD_STATUS_ABSENT;
    one->over = NGX_ETCD_STATUS_ABSENT;
    one->unmatched = NGX_ETCD_STATUS_ABSENT;
    one->tables = NGX_ETCD_STATUS_ABSENT;

    return NGX_OK;
}
