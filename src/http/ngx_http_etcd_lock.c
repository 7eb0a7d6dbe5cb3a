
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd_client.h>
#include <ngx_http_etcd_lock.h>
#include <ngx_http_etcd_lock_hold.h>
#include <ngx_http_etcd_wait.h>
#include <ngx_http_etcd_upstream.h>
#include <ngx_http_etcd_set.h>


/* seconds; the duration of the lock is unknown */

#define NGX_HTTP_ETCD_LOCK_RETRY  "1"


/* the former post_subrequest of a subrequest */

typedef struct {
    ngx_http_post_subrequest_t   post;
    ngx_http_post_subrequest_t  *next;
} ngx_http_etcd_lock_post_t;


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;
static ngx_http_output_body_filter_pt    ngx_http_next_body_filter;


char *
ngx_http_etcd_lock(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_etcd_loc_conf_t *elcf = conf;

    return ngx_etcd_lock_conf(cf, &elcf->locks, ngx_http_etcd_set_compile);
}


static ngx_int_t
ngx_http_etcd_lock_value(void *owner, void *key, ngx_str_t *value)
{
    return ngx_http_complex_value(owner, key, value);
}


/*
 * Finds the same lock in the request or its parents: waiting for it would be
 * a deadlock.
 */

static ngx_etcd_request_lock_t *
ngx_http_etcd_lock_find(ngx_http_request_t *r, ngx_etcd_lock_conf_t *lock,
    ngx_str_t *key)
{
    ngx_http_request_t       *request;
    ngx_etcd_request_lock_t  *rl;

    for (rl = ngx_etcd_request_lock_next(r->pool, NULL);
         rl != NULL;
         rl = ngx_etcd_request_lock_next(r->pool, rl))
    {
        if (!ngx_etcd_request_lock_same(rl, lock, key)) {
            continue;
        }

        for (request = r; request != NULL; request = request->parent) {
            if (rl->owner == request) {
                return rl;
            }
        }
    }

    return NULL;
}


/* A subrequest uses the lock of its parent, and sees its variables. */

static ngx_etcd_request_lock_t *
ngx_http_etcd_lock_borrow(ngx_http_request_t *r, ngx_etcd_lock_conf_t *lock,
    ngx_str_t *key, ngx_etcd_request_lock_t *lender)
{
    ngx_etcd_request_lock_t  *rl;

    rl = ngx_etcd_request_lock_add(r->pool, r, lock);
    if (rl == NULL) {
        return NULL;
    }

    rl->key = *key;
    rl->lender = (lender->lender != NULL) ? lender->lender : lender;

    return rl;
}


/*
 * Subrequests that use the lock of the request wait for it, too: those that
 * were in progress when an internal redirect led the request to the lock.
 */

static void
ngx_http_etcd_lock_lent(ngx_etcd_request_lock_t *lender)
{
    void                     *posted;
    ngx_http_request_t       *r, *sr;
    ngx_etcd_request_lock_t  *rl;

    r = lender->owner;
    rl = NULL;

    while ((rl = ngx_etcd_request_lock_next(r->pool, rl)) != NULL) {

        if (rl->lender != lender || rl->posted == NULL) {
            continue;
        }

        sr = rl->owner;
        posted = rl->posted;
        rl->posted = NULL;

        if (ngx_http_etcd_pause_lasts(sr, rl->changes)) {
            ngx_http_etcd_pause_post(sr, posted);
        }
    }
}


/* Releases all locks that the request holds or awaits, the newest first. */

static void
ngx_http_etcd_lock_release(ngx_http_request_t *r)
{
    ngx_etcd_request_lock_t  *rl;

    rl = NULL;

    while ((rl = ngx_etcd_request_lock_next(r->pool, rl)) != NULL) {
        if (rl->owner == r) {
            ngx_http_etcd_lock_hold_end(r, rl);
            ngx_http_etcd_lock_lent(rl);
        }
    }
}


static ngx_int_t
ngx_http_etcd_lock_subrequest_done(ngx_http_request_t *r, void *data,
    ngx_int_t rc)
{
    ngx_http_etcd_lock_post_t  *post;

    post = data;

    if (post->next != NULL) {
        rc = post->next->handler(r, post->next->data, rc);
    }

    /* keep the locks if an error page follows */

    if (rc != NGX_HTTP_CREATED
        && rc != NGX_HTTP_NO_CONTENT
        && rc < NGX_HTTP_SPECIAL_RESPONSE)
    {
        ngx_http_etcd_lock_release(r);
    }

    return rc;
}


/* The locks of a subrequest end with the subrequest, not with the request. */

static ngx_int_t
ngx_http_etcd_lock_subrequest(ngx_http_request_t *r)
{
    ngx_http_etcd_lock_post_t  *post;

    if (r->post_subrequest != NULL
        && r->post_subrequest->handler == ngx_http_etcd_lock_subrequest_done)
    {
        return NGX_OK;
    }

    post = ngx_palloc(r->pool, sizeof(ngx_http_etcd_lock_post_t));
    if (post == NULL) {
        return NGX_ERROR;
    }

    post->post.handler = ngx_http_etcd_lock_subrequest_done;
    post->post.data = post;
    post->next = r->post_subrequest;

    r->post_subrequest = &post->post;

    return NGX_OK;
}


static void
ngx_http_etcd_lock_cleanup(void *data)
{
    ngx_etcd_request_lock_t *rl = data;

    ngx_http_etcd_lock_hold_end(rl->owner, rl);
}


static void
ngx_http_etcd_lock_over(ngx_etcd_grant_t *grant)
{
    ngx_connection_t         *c;
    ngx_http_request_t       *r;
    ngx_etcd_request_lock_t  *rl;

    rl = grant->data;
    r = rl->owner;
    c = r->connection;

    ngx_http_etcd_lock_lent(rl);

    if (ngx_http_etcd_pause_lasts(r, rl->changes)) {
        ngx_http_etcd_pause_end(r);

    } else {
        ngx_http_run_posted_requests(c);
    }
}


/*
 * Returns 1 if nothing but background subrequests is left of the main request:
 * the client has the response.  "post_action" is another response.
 */

static ngx_uint_t
ngx_http_etcd_lock_answered(ngx_http_request_t *r)
{
    return r == r->main
           && r->done
           && !ngx_http_etcd_pause_active(r)
           && (r->upstream == NULL || r->upstream->cleanup == NULL);
}


static ngx_http_request_t *
ngx_http_etcd_lock_waits_background(ngx_http_request_t *r)
{
    ngx_http_request_t       *sr;
    ngx_etcd_request_lock_t  *rl;

    rl = NULL;

    while ((rl = ngx_etcd_request_lock_next(r->pool, rl)) != NULL) {
        sr = rl->owner;

        if (sr != r
            && sr->background
            && ngx_http_etcd_pause_active(sr)
            && ngx_http_etcd_lock_hold_below(sr, r))
        {
            ngx_http_etcd_lock_release(sr);
            return sr;
        }
    }

    return NULL;
}


/*
 * Ends background subrequests that use an upstream, or wait for a member or a
 * lock.  Returns how many of them end later, as a thread writes for them.
 */

static ngx_uint_t
ngx_http_etcd_lock_cut_background(ngx_http_request_t *r, ngx_int_t status)
{
    ngx_uint_t           writing;
    ngx_http_request_t  *sr;

    writing = 0;

    while ((sr = ngx_http_etcd_lock_hold_background(r)) != NULL) {
        if (ngx_http_etcd_upstream_end(sr, status) == NGX_AGAIN) {
            writing++;
        }
    }

    while ((sr = ngx_http_etcd_wait_background(r)) != NULL
           || (sr = ngx_http_etcd_lock_waits_background(r)) != NULL)
    {
        sr->headers_out.status = status;
        sr->write_event_handler = ngx_http_request_empty_handler;

        ngx_http_finalize_request(sr, NGX_OK);
    }

    return writing;
}


/*
 * Ends what is left, as nginx does when it terminates a request, so that the
 * connection to the client ends as usual.  nginx must terminate the request
 * only if a subrequest is left that does something else.  The main request has
 * no reference of its own.
 */

static void
ngx_http_etcd_lock_cut_rest(ngx_http_request_t *r, ngx_int_t status)
{
    ngx_uint_t           left, writing;
    ngx_connection_t    *c;
    ngx_http_cleanup_t  *cln;

    c = r->connection;

    if (c->write->handler == ngx_http_empty_handler) {

        /* lingering close: no subrequest is left */

        return;
    }

    r->count++;

    writing = ngx_http_etcd_lock_cut_background(r, status);

    ngx_http_etcd_lock_hold_cut(r);

    cln = r->cleanup;
    r->cleanup = NULL;

    for ( /* void */ ; cln != NULL; cln = cln->next) {
        if (cln->handler != NULL) {
            cln->handler(cln->data);
        }
    }

    /* the rest of the request's body, which is discarded, has a reference */

    left = r->count - 1 - r->discard_body - writing;

    ngx_http_finalize_request(r, (left || r->blocked > writing) ? NGX_ERROR
                                                                : NGX_DONE);

    ngx_http_run_posted_requests(c);
}


static void
ngx_http_etcd_lock_cut(ngx_http_request_t *r, ngx_int_t status)
{
    ngx_connection_t  *c;

    c = r->connection;

    if (ngx_http_etcd_lock_answered(r)) {
        ngx_http_etcd_lock_cut_rest(r, status);
        return;
    }

    (void) ngx_http_etcd_lock_cut_background(r, status);

    if (ngx_http_etcd_wait_abandon(r)) {
        ngx_http_etcd_client_skip_body(r);
        ngx_http_finalize_request(r, status);
        ngx_http_run_posted_requests(c);
        return;
    }

    if (ngx_http_etcd_pause_active(r)) {

        /*
         * waiting for another lock: the loss is detected when the phase runs
         * again
         */

        ngx_http_etcd_pause_end(r);
        return;
    }

    if (r->upstream != NULL && r->upstream->cleanup != NULL) {
        ngx_http_etcd_upstream_cut(r, status);
        return;
    }

    if (r->request_body != NULL && r->request_body->rest != 0
        && !r->header_sent)
    {
        /*
         * only reading of the body is in progress: it ends as if it had
         * failed
         */

        ngx_http_etcd_client_skip_body(r);
        ngx_http_finalize_request(r, status);

    } else {
        r->keepalive = 0;
        ngx_http_finalize_request(r, NGX_ERROR);
    }

    ngx_http_run_posted_requests(c);
}


static void
ngx_http_etcd_lock_is_lost(ngx_etcd_grant_t *grant)
{
    ngx_http_request_t       *r;
    ngx_etcd_request_lock_t  *rl;

    rl = grant->data;
    r = rl->owner;

    ngx_http_set_log_request(r->connection->log, r);

    ngx_etcd_request_lock_report(rl, r->connection->log);

    if (rl->lost == NGX_ETCD_LOCK_CLOSE) {
        ngx_http_etcd_lock_cut(r, rl->status);
    }
}


/*
 * Adds a request lock with a request cleanup, which runs before the request is
 * logged; pool cleanups run later.
 */

static ngx_etcd_request_lock_t *
ngx_http_etcd_lock_add(ngx_http_request_t *r, ngx_etcd_lock_conf_t *lock)
{
    ngx_http_cleanup_t        *cln;
    ngx_etcd_request_lock_t   *rl;
    ngx_http_etcd_loc_conf_t  *elcf;

    if (ngx_http_etcd_lock_hold_init(r) != NGX_OK) {
        return NULL;
    }

    if (r != r->main && ngx_http_etcd_lock_subrequest(r) != NGX_OK) {
        return NULL;
    }

    cln = ngx_http_cleanup_add(r, 0);
    rl = ngx_etcd_request_lock_add(r->pool, r, lock);

    if (cln == NULL || rl == NULL) {
        return NULL;
    }

    cln->handler = ngx_http_etcd_lock_cleanup;
    cln->data = rl;

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_etcd_module);

    rl->lost = elcf->lock_lost;
    rl->status = elcf->lock_unavailable;
    rl->hold = elcf->lock_hold;
    rl->max_hold = elcf->lock_max_hold;

    rl->grant.handler = ngx_http_etcd_lock_over;
    rl->grant.lost = ngx_http_etcd_lock_is_lost;

    return rl;
}


static ngx_etcd_request_lock_t *
ngx_http_etcd_lock_take(void *owner, ngx_etcd_lock_conf_t *lock, ngx_str_t *key)
{
    ngx_http_request_t *r = owner;

    ngx_etcd_request_lock_t  *rl;

    rl = ngx_http_etcd_lock_find(r, lock, key);

    if (rl != NULL) {
        return (rl->owner == r) ? rl
                                : ngx_http_etcd_lock_borrow(r, lock, key, rl);
    }

    rl = ngx_http_etcd_lock_add(r, lock);
    if (rl == NULL) {
        return NULL;
    }

    rl->key = *key;

    /* detect a client that closes the connection */

    if (ngx_http_etcd_client_watch(r) != NGX_OK) {
        return NULL;
    }

    if (ngx_etcd_lock_begin(&rl->grant, key, r->connection->log) == NGX_ERROR) {
        return NULL;
    }

    return rl;
}


/* A refused request releases the locks that it has got before. */

static ngx_int_t
ngx_http_etcd_lock_refuse(ngx_http_request_t *r, ngx_int_t status)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }

    h->hash = 1;
    ngx_http_etcd_header_alone(h);
    ngx_str_set(&h->key, "Retry-After");
    ngx_str_set(&h->value, NGX_HTTP_ETCD_LOCK_RETRY);

    ngx_http_etcd_lock_release(r);

    return status;
}


/* NGX_OK: the lock is held. */

static ngx_int_t
ngx_http_etcd_lock_result(void *owner, ngx_etcd_request_lock_t *rl)
{
    ngx_http_request_t *r = owner;

    ngx_int_t                  rc;
    ngx_http_etcd_loc_conf_t  *elcf;

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_etcd_module);

    rc = ngx_etcd_request_lock_result(rl);

    switch (rc) {

    case NGX_OK:
        return NGX_OK;

    case NGX_AGAIN:
        rl->changes = r->uri_changes;

        if (rl->lender != NULL) {
            rl->posted = ngx_palloc(r->pool, sizeof(ngx_http_posted_request_t));
            if (rl->posted == NULL) {
                return NGX_ERROR;
            }
        }

        ngx_http_etcd_pause(r);
        return NGX_AGAIN;

    case NGX_BUSY:
        return ngx_http_etcd_lock_refuse(r, elcf->lock_status);

    default:
        return ngx_http_etcd_lock_refuse(r, elcf->lock_unavailable);
    }
}


ngx_int_t
ngx_http_etcd_lock_handler(ngx_http_request_t *r)
{
    ngx_int_t                       rc;
    ngx_http_etcd_loc_conf_t       *elcf;
    ngx_etcd_request_lock_owner_t   owner;

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_etcd_module);

    owner.owner = r;
    owner.pool = r->pool;
    owner.log = r->connection->log;
    owner.value = ngx_http_etcd_lock_value;
    owner.take = ngx_http_etcd_lock_take;
    owner.result = ngx_http_etcd_lock_result;

    rc = ngx_etcd_request_lock_take(&owner, elcf->locks);

    switch (rc) {

    case NGX_OK:
        return NGX_DECLINED;

    case NGX_DECLINED:
        ngx_http_etcd_lock_release(r);
        return NGX_HTTP_BAD_REQUEST;

    default:
        return rc;
    }
}


/*
 * Returns a lock whose loss ends the request; NULL: none, or already
 * reported.
 */

static ngx_etcd_request_lock_t *
ngx_http_etcd_lock_find_lost(ngx_http_request_t *r)
{
    ngx_etcd_request_lock_t  *rl;

    for (rl = ngx_etcd_request_lock_next(r->pool, NULL);
         rl != NULL;
         rl = ngx_etcd_request_lock_next(r->pool, rl))
    {
        if (rl->owner != r || !ngx_etcd_lock_found_lost(&rl->grant)) {
            continue;
        }

        ngx_etcd_request_lock_report(rl, r->connection->log);

        if (rl->lost == NGX_ETCD_LOCK_CLOSE) {
            return rl;
        }
    }

    return NULL;
}


/*
 * Refuses a response if a lock is known to be lost: the lost() handler may
 * not have been called yet.
 */

static ngx_int_t
ngx_http_etcd_lock_header_filter(ngx_http_request_t *r)
{
    ngx_etcd_request_lock_t  *rl;

    rl = ngx_http_etcd_lock_find_lost(r);

    if (rl != NULL) {
        ngx_http_etcd_client_skip_body(r);

        return ngx_http_filter_finalize_request(r, NULL, rl->status);
    }

    if (r->background && ngx_http_etcd_lock_hold_note(r) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_next_header_filter(r);
}


static ngx_int_t
ngx_http_etcd_lock_body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    if (ngx_http_etcd_lock_find_lost(r) != NULL) {
        return NGX_ERROR;
    }

    return ngx_http_next_body_filter(r, in);
}


void
ngx_http_etcd_lock_add_filters(void)
{
    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_etcd_lock_header_filter;

    ngx_http_next_body_filter = ngx_http_top_body_filter;
    ngx_http_top_body_filter = ngx_http_etcd_lock_body_filter;
}


static ngx_int_t
ngx_http_etcd_lock_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_etcd_lock_variable_t  *variable;

    variable = (ngx_etcd_lock_variable_t *) data;

    return variable->get(&variable->name, r->pool, r, v);
}


ngx_int_t
ngx_http_etcd_lock_add_variables(ngx_conf_t *cf)
{
    ngx_http_variable_t       *var;
    ngx_etcd_lock_variable_t  *v;

    for (v = ngx_etcd_lock_variables; v->name.len != 0; v++) {
        var = ngx_http_add_variable(cf, &v->name, NGX_HTTP_VAR_NOCACHEABLE);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = ngx_http_etcd_lock_variable;
        var->data = (uintptr_t) v;
    }

    return NGX_OK;
}
