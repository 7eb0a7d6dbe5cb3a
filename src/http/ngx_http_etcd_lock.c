
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_etcd_str.h>
#include <ngx_http_etcd_client.h>
#include <ngx_http_etcd_lock.h>
#include <ngx_http_etcd_lock_hold.h>
#include <ngx_http_etcd_lock_serve.h>
#include <ngx_http_etcd_set.h>
#include <ngx_http_etcd_upstream.h>
#include <ngx_http_etcd_variable.h>
#include <ngx_http_etcd_wait.h>


/* nginx knows neither a text nor a page for this status */

#define NGX_HTTP_ETCD_LOCKED  423


/* in seconds; the duration of the lock is unknown */

static ngx_http_etcd_header_t  ngx_http_etcd_lock_retry[] = {
    { ngx_string("Retry-After"), ngx_string("1") },
    { ngx_null_string, ngx_null_string }
};


static ngx_str_t  ngx_http_etcd_locked_page = ngx_string(
    "<html>" CRLF
    "<head><title>423 Locked</title></head>" CRLF
    "<body>" CRLF
    "<center><h1>423 Locked</h1></center>" CRLF
    "<hr><center>nginx</center>" CRLF
    "</body>" CRLF
    "</html>" CRLF);


/*
 * Modules that start background subrequests of a location, with what their
 * configuration begins with, which is private to them.
 */

typedef struct {
    char                        *module;
    char                        *directive;
    ngx_uint_t                   upstream;     /* ngx_http_upstream_conf_t; 0:
                                                  an array, NULL if off */
} ngx_http_etcd_lock_background_t;


static ngx_http_etcd_lock_background_t  ngx_http_etcd_lock_backgrounds[] = {

    { "ngx_http_mirror_module", "mirror", 0 },
    { "ngx_http_proxy_module", "proxy_cache_background_update", 1 },
    { "ngx_http_fastcgi_module", "fastcgi_cache_background_update", 1 },
    { "ngx_http_uwsgi_module", "uwsgi_cache_background_update", 1 },
    { "ngx_http_scgi_module", "scgi_cache_background_update", 1 },

    { NULL, NULL, 0 }
};


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;
static ngx_http_output_body_filter_pt    ngx_http_next_body_filter;


char *
ngx_http_etcd_lock(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_etcd_loc_conf_t *elcf = conf;

    return ngx_etcd_lock_conf(cf, &elcf->locks, ngx_http_etcd_set_compile);
}


static ngx_module_t *
ngx_http_etcd_lock_module(ngx_conf_t *cf, char *name)
{
    ngx_uint_t      i;
    ngx_module_t  **modules;

    modules = cf->cycle->modules;

    for (i = 0; modules[i] != NULL; i++) {
        if (modules[i]->type == NGX_HTTP_MODULE
            && ngx_strcmp(modules[i]->name, name) == 0)
        {
            return modules[i];
        }
    }

    return NULL;
}


/* nginx's own modules come first, and have merged their configuration. */

char *
ngx_http_etcd_lock_check(ngx_conf_t *cf, ngx_array_t *locks)
{
    void                             *conf;
    ngx_uint_t                        used;
    ngx_module_t                     *module;
    ngx_etcd_lock_conf_t             *lock;
    ngx_http_core_loc_conf_t         *clcf;
    ngx_http_etcd_lock_background_t  *bg;

    lock = locks->elts;
    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    for (bg = ngx_http_etcd_lock_backgrounds; bg->module != NULL; bg++) {

        module = ngx_http_etcd_lock_module(cf, bg->module);
        if (module == NULL) {
            continue;
        }

        conf = ngx_http_conf_get_module_loc_conf(cf, (*module));
        used = (!bg->upstream && *(ngx_array_t **) conf != NULL);

#if (NGX_HTTP_CACHE)

        if (bg->upstream) {
            used = ((ngx_http_upstream_conf_t *) conf)->cache
                && ((ngx_http_upstream_conf_t *) conf)->cache_background_update;
        }

#endif

        if (used) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "\"%s\" cannot be used with "
                               "\"etcd_lock %V\" in location \"%V\"",
                               bg->directive, &lock[0].name->name,
                               &clcf->name);
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


static void
ngx_http_etcd_lock_over(ngx_etcd_grant_t *grant)
{
    ngx_http_request_t  *r;

    r = grant->owner;

    if (ngx_http_etcd_pause_lasts(r, grant->changes)) {
        ngx_http_etcd_pause_end(r);
    }
}


static void
ngx_http_etcd_lock_cut(ngx_http_request_t *r, ngx_int_t status)
{
    ngx_uint_t         waits, paused;
    ngx_connection_t  *c;

    c = r->connection;

    /*
     * The request has its answer: others, in the background, are left of it.
     * "post_action" is another answer.
     */

    if (r->done
        && !ngx_http_etcd_pause_active(r)
        && (r->upstream == NULL || r->upstream->cleanup == NULL))
    {
        return;
    }

    waits = ngx_http_etcd_wait_abandon(r);
    paused = !waits && ngx_http_etcd_pause_active(r);

    if (paused) {

        /* for another lock, in a location that may not have this one */

        ngx_http_etcd_lock_hold_release(r);

    } else if (!waits && r->upstream != NULL && r->upstream->cleanup != NULL) {
        ngx_http_etcd_upstream_cut(r, status);
        return;
    }

    /* if only the body is being read, that ends as if it had failed */

    if (waits || paused
        || (r->request_body != NULL && r->request_body->rest != 0
            && !r->header_sent))
    {
        ngx_http_etcd_client_skip_body(r);
        ngx_http_finalize_request(r, status);

    } else {
        ngx_http_etcd_lock_serve_lost(r);

        r->keepalive = 0;
        ngx_http_finalize_request(r, NGX_ERROR);
    }

    ngx_http_run_posted_requests(c);
}


static void
ngx_http_etcd_lock_is_lost(ngx_etcd_grant_t *grant)
{
    ngx_http_request_t  *r;

    r = grant->owner;

    ngx_http_set_log_request(r->connection->log, r);

    if (ngx_etcd_grant_report(grant, r->pool, r->connection->log)) {
        ngx_http_etcd_lock_cut(r, grant->status);
    }
}


static ngx_etcd_grant_t *
ngx_http_etcd_lock_add(ngx_http_request_t *r, ngx_etcd_lock_conf_t *lock,
    ngx_str_t *key, ngx_uint_t shared)
{
    ngx_etcd_grant_t          *grant;
    ngx_http_etcd_loc_conf_t  *elcf;

    if (ngx_http_etcd_lock_hold_init(r) != NGX_OK) {
        return NULL;
    }

    grant = ngx_etcd_grant_add(r->pool, r, lock, key, shared);
    if (grant == NULL) {
        return NULL;
    }

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_etcd_module);

    grant->on_lost = elcf->lock_lost;
    grant->status = elcf->lock_unavailable;
    grant->hold = elcf->lock_hold;
    grant->max_hold = elcf->lock_max_hold;

    grant->handler = ngx_http_etcd_lock_over;
    grant->lost = ngx_http_etcd_lock_is_lost;

    /* detect a client that closes the connection */

    return (ngx_http_etcd_client_watch(r) == NGX_OK
            && ngx_etcd_lock_begin(grant, r->connection->log) != NGX_ERROR)
           ? grant : NULL;
}


/*
 * A request takes a lock once, by whichever directive, unless it has given the
 * lock back when it was refused another one.  A subrequest takes none: it would
 * wait for its own request.  So would a request that shares a lock and wants it
 * alone.
 */

static ngx_etcd_grant_t *
ngx_http_etcd_lock_take(void *owner, ngx_etcd_lock_conf_t *lock, ngx_str_t *key,
    ngx_uint_t shared)
{
    ngx_http_request_t *r = owner;

    ngx_int_t          rc;
    ngx_uint_t         shares;
    ngx_etcd_grant_t  *grant;

    shares = 0;

    ngx_etcd_grant_each(grant, r->pool, r->main) {

        if (grant->state == NGX_ETCD_GRANT_NONE
            || grant->conf->name != lock->name
            || !ngx_etcd_str_equal(&grant->key, key))
        {
            continue;
        }

        rc = ngx_etcd_grant_result(grant);

        if (r != r->main && (r->background || rc != NGX_OK)) {
            continue;
        }

        if (shared || !grant->shared || (rc != NGX_OK && rc != NGX_AGAIN)) {
            return grant;
        }

        shares = 1;
        break;
    }

    if (r == r->main && !shares) {
        return ngx_http_etcd_lock_add(r, lock, key, shared);
    }

    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                  "etcd: lock \"%V%s%V\" refuses %s \"%V\", %s",
                  &lock->name->name, key->len ? "/" : "", ngx_etcd_shown(key),
                  (r == r->main) ? "request" : "subrequest",
                  ngx_etcd_shown(&r->uri),
                  shares ? "which shares it with others"
                         : r->background ? "which runs in the background"
                                         : "whose request does not hold it");

    return NULL;
}


/* The answer of a status, unless an "error_page" is another one. */

static ngx_int_t
ngx_http_etcd_lock_answer(ngx_http_request_t *r, ngx_int_t status)
{
    ngx_str_t                  type;
    ngx_uint_t                 i;
    ngx_http_err_page_t       *page;
    ngx_http_complex_value_t   cv;
    ngx_http_core_loc_conf_t  *clcf;

    if (status != NGX_HTTP_ETCD_LOCKED) {
        return status;
    }

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (!r->error_page && clcf->error_pages && r->uri_changes != 0) {
        page = clcf->error_pages->elts;

        for (i = 0; i < clcf->error_pages->nelts; i++) {
            if (page[i].status == status) {
                return status;
            }
        }
    }

    ngx_str_set(&type, "text/html");

    ngx_memzero(&cv, sizeof(ngx_http_complex_value_t));
    cv.value = ngx_http_etcd_locked_page;

    ngx_http_finalize_request(r, ngx_http_send_response(r, status, &type,
                                                        &cv));
    return NGX_DONE;
}


/* A refused request releases the locks that it has got before. */

ngx_int_t
ngx_http_etcd_lock_handler(ngx_http_request_t *r)
{
    ngx_int_t                  rc;
    ngx_etcd_grant_owner_t     owner;
    ngx_http_etcd_loc_conf_t  *elcf;

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_etcd_module);

    owner.owner = r;
    owner.pool = r->pool;
    owner.log = r->connection->log;
    owner.changes = r->uri_changes;
    owner.value = ngx_http_etcd_set_text;
    owner.take = ngx_http_etcd_lock_take;

    rc = ngx_etcd_grant_take(&owner, elcf->locks);

    if (rc == NGX_OK) {
        return NGX_DECLINED;
    }

    if (rc == NGX_AGAIN) {
        ngx_http_etcd_pause(r);
        return NGX_AGAIN;
    }

    /* a request that has held the lock may have done its work */

    if ((rc == NGX_BUSY || rc == NGX_DECLINED)
        && (owner.grant->token != 0
            || ngx_http_etcd_header_add(r, ngx_http_etcd_lock_retry)
               == NGX_OK))
    {
        ngx_http_etcd_lock_hold_release(r);

        return ngx_http_etcd_lock_answer(r, (rc == NGX_BUSY)
                                            ? elcf->lock_status
                                            : elcf->lock_unavailable);
    }

    /* NGX_ERROR of a subrequest would end the main request as well */

    if (r == r->main) {
        ngx_http_etcd_lock_hold_release(r);
    }

    return (rc == NGX_ABORT) ? NGX_HTTP_BAD_REQUEST
                             : NGX_HTTP_INTERNAL_SERVER_ERROR;
}


/*
 * Refuses a response if a lock is known to be lost: the lost() handler may
 * not have been called yet.
 */

static ngx_int_t
ngx_http_etcd_lock_header_filter(ngx_http_request_t *r)
{
    ngx_etcd_grant_t  *grant;

    grant = ngx_etcd_grant_lost(r->pool, r, r->connection->log);

    if (grant != NULL) {
        ngx_http_etcd_client_skip_body(r);

        return ngx_http_filter_finalize_request(r, NULL, grant->status);
    }

    if (r->headers_out.status == NGX_HTTP_ETCD_LOCKED
        && r->headers_out.status_line.len == 0)
    {
        ngx_str_set(&r->headers_out.status_line, "423 Locked");
    }

    return ngx_http_next_header_filter(r);
}


static ngx_int_t
ngx_http_etcd_lock_body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    if (ngx_etcd_grant_lost(r->pool, r, r->connection->log) != NULL) {
        return NGX_ERROR;
    }

    return ngx_http_next_body_filter(r, in);
}


void
ngx_http_etcd_lock_add_filters(void)
{
    ngx_http_etcd_lock_hold_filters();

    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_etcd_lock_header_filter;

    ngx_http_next_body_filter = ngx_http_top_body_filter;
    ngx_http_top_body_filter = ngx_http_etcd_lock_body_filter;
}


/* A subrequest in a location with locks runs under those of its request. */

static ngx_int_t
ngx_http_etcd_lock_variable_get(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    ngx_etcd_lock_variable_t  *variable;
    ngx_http_etcd_loc_conf_t  *elcf;

    variable = (ngx_etcd_lock_variable_t *) data;
    elcf = ngx_http_get_module_loc_conf(r, ngx_http_etcd_module);

    return variable->get(&variable->name, r->pool,
                         elcf->locks != NULL ? r->main : r, v);
}


static ngx_int_t
ngx_http_etcd_lock_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    return ngx_http_etcd_variable_get(r, v, data,
                                      ngx_http_etcd_lock_variable_get);
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
