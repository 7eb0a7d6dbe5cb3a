
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd_pause.h>


static void
ngx_http_etcd_pause_write(ngx_http_request_t *r)
{
    if (ngx_handle_write_event(r->connection->write, 0) != NGX_OK) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
    }
}


void
ngx_http_etcd_pause(ngx_http_request_t *r)
{
    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_etcd_pause_write;
}


ngx_uint_t
ngx_http_etcd_pause_active(ngx_http_request_t *r)
{
    return r->write_event_handler == ngx_http_etcd_pause_write;
}


ngx_uint_t
ngx_http_etcd_pause_lasts(ngx_http_request_t *r, ngx_uint_t changes)
{
    return ngx_http_etcd_pause_active(r) && r->uri_changes == changes;
}


void
ngx_http_etcd_pause_end(ngx_http_request_t *r)
{
    ngx_connection_t  *c;

    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_core_run_phases;

    ngx_http_core_run_phases(r);

    ngx_http_run_posted_requests(c);
}


void
ngx_http_etcd_pause_post(ngx_http_request_t *r, ngx_http_posted_request_t *pr)
{
    r->read_event_handler = ngx_http_block_reading;
    r->write_event_handler = ngx_http_core_run_phases;

    (void) ngx_http_post_request(r, pr);
}


void
ngx_http_etcd_pause_detach(ngx_http_request_t *r)
{
    ngx_http_upstream_t  *u;

    u = r->upstream;

    *u->cleanup = NULL;
    u->cleanup = NULL;
    u->state = NULL;

    /* the request is built again: this would be taken for its body */
    u->request_bufs = NULL;

    /* no balancer was called */
    u->peer.get = NULL;

    if (r->upstream_states->nelts != 0) {
        r->upstream_states->nelts--;

    } else {
        r->upstream_states = NULL;
    }

    r->main->count++;
}


void
ngx_http_etcd_pause_restart(ngx_http_request_t *r)
{
#if (NGX_HTTP_CACHE)

    ngx_http_cache_t  *c;

    c = r->cache;

    /* a request that bypasses the cache has no node */

    if (c != NULL && (c->node == NULL || c->updating)) {
        ngx_http_file_cache_free(c, NULL);
        r->cache = NULL;
    }

#endif

    ngx_http_upstream_init(r);
}


void
ngx_http_etcd_pause_release(ngx_http_request_t *r)
{
#if (NGX_HTTP_CACHE)

    if (r->cache != NULL) {
        ngx_http_file_cache_free(r->cache, NULL);
    }

#endif
}
