
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_etcd_event.h>
#include <ngx_http_etcd_client.h>
#include <ngx_http_etcd_lock_serve.h>
#include <ngx_http_etcd_set.h>


/* a client that acknowledges none of so many is gone */

#define NGX_HTTP_ETCD_LOCK_SERVE_PINGS  3

/* ms: lines are not more frequent, and a client that takes none gets another */

#define NGX_HTTP_ETCD_LOCK_SERVE_LEAST  100
#define NGX_HTTP_ETCD_LOCK_SERVE_BUSY   1000

#define NGX_HTTP_ETCD_LOCK_SERVE_HELD                                         \
    (sizeof("# held .000\n") + NGX_INT64_LEN)


typedef struct {
    ngx_http_request_t  *request;
    ngx_event_t          ping;
    ngx_buf_t            buf;          /* one for all lines: a connection may
                                          last for days */
    u_char               line[NGX_HTTP_ETCD_LOCK_SERVE_HELD];
} ngx_http_etcd_lock_serve_t;


static ngx_str_t  ngx_http_etcd_lock_serve_first = ngx_string(
    "token $etcd_lock_token\n");
static ngx_str_t  ngx_http_etcd_lock_serve_last = ngx_string("lost\n");


static ngx_http_etcd_header_t  ngx_http_etcd_lock_serve_headers[] = {
    { ngx_string("Cache-Control"), ngx_string("no-store") },
    { ngx_string("X-Accel-Buffering"), ngx_string("no") },
    { ngx_null_string, ngx_null_string }
};


static void
ngx_http_etcd_lock_serve_cleanup(void *data)
{
    ngx_http_etcd_lock_serve_t *serve = data;

    ngx_etcd_event_stop(&serve->ping);
}


/* The client has not taken all that was sent: another line is left out. */

#define ngx_http_etcd_lock_serve_busy(r)                                      \
    ((r)->buffered || (r)->connection->buffered)


static ngx_int_t
ngx_http_etcd_lock_serve_line(ngx_http_request_t *r, ngx_buf_t *b,
    ngx_str_t *line)
{
    ngx_chain_t  out;

    ngx_memzero(b, sizeof(ngx_buf_t));

    b->pos = line->data;
    b->last = line->data + line->len;
    b->memory = 1;
    b->flush = 1;

    out.buf = b;
    out.next = NULL;

    return ngx_http_output_filter(r, &out);
}


/* Waits for the client if it has not taken all, no longer than nginx does. */

static void
ngx_http_etcd_lock_serve_sent(ngx_http_request_t *r, ngx_int_t rc)
{
    ngx_event_t               *wev;
    ngx_http_core_loc_conf_t  *clcf;

    wev = r->connection->write;

    if (rc == NGX_ERROR) {
        ngx_http_finalize_request(r, NGX_ERROR);
        return;
    }

    if (!ngx_http_etcd_lock_serve_busy(r)) {

        if (wev->timer_set && !wev->delayed) {
            ngx_del_timer(wev);
        }

    } else if (!wev->timer_set) {
        clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
        ngx_add_timer(wev, clcf->send_timeout);
    }

    if (ngx_handle_write_event(wev, 0) != NGX_OK) {
        ngx_http_finalize_request(r, NGX_ERROR);
    }
}


static void
ngx_http_etcd_lock_serve_write(ngx_http_request_t *r)
{
    ngx_int_t          rc;
    ngx_connection_t  *c;

    c = r->connection;

    if (c->write->timedout) {
        ngx_connection_error(c, NGX_ETIMEDOUT, "client timed out");
        c->timedout = 1;
        ngx_http_finalize_request(r, NGX_HTTP_REQUEST_TIME_OUT);
        return;
    }

    /* a client of HTTP/3 cancels the side of the stream that is written */

    rc = ngx_http_etcd_client_left(r)
         ? NGX_ERROR
         : (ngx_http_etcd_lock_serve_busy(r) && !c->write->delayed)
           ? ngx_http_output_filter(r, NULL) : NGX_OK;

    ngx_http_etcd_lock_serve_sent(r, rc);
}


/* After the end "post_action" may go on with the request. */

#define ngx_http_etcd_lock_serve_lasts(r)                                     \
    ((r)->write_event_handler == ngx_http_etcd_lock_serve_write)


/*
 * An answer without chunks or frames ends as it should when its connection is
 * closed, but not when it is reset.
 */

void
ngx_http_etcd_lock_serve_lost(ngx_http_request_t *r)
{
    ngx_buf_t      *b;
    struct linger   linger;

    if (!ngx_http_etcd_lock_serve_lasts(r) || r->connection->error) {
        return;
    }

    if (!r->chunked && r->http_version <= NGX_HTTP_VERSION_11) {
        linger.l_onoff = 1;
        linger.l_linger = 0;

        (void) setsockopt(r->connection->fd, SOL_SOCKET, SO_LINGER,
                          (const void *) &linger, sizeof(struct linger));
    }

    b = ngx_http_etcd_lock_serve_busy(r) ? NULL : ngx_alloc_buf(r->pool);

    if (b != NULL) {
        (void) ngx_http_etcd_lock_serve_line(r, b,
                                             &ngx_http_etcd_lock_serve_last);
    }
}


/*
 * Writes how long the lock lasts if nginx stands still from now on, and lets
 * the next line come well before that.  Returns the end of the line.
 */

static u_char *
ngx_http_etcd_lock_serve_held(ngx_http_etcd_lock_serve_t *serve, u_char *p)
{
    ngx_msec_t                 left;
    ngx_http_etcd_loc_conf_t  *elcf;

    elcf = ngx_http_get_module_loc_conf(serve->request, ngx_http_etcd_module);
    left = ngx_etcd_grant_left(serve->request->pool, serve->request);

    ngx_add_timer(&serve->ping,
                  ngx_min(elcf->lock_serve_ping,
                          ngx_max(left / 3 * 2,
                                  NGX_HTTP_ETCD_LOCK_SERVE_LEAST)));

    return ngx_sprintf(p, "# held %M.%03M\n", left / 1000, left % 1000);
}


static void
ngx_http_etcd_lock_serve_ping(ngx_event_t *ev)
{
    ngx_int_t                    rc;
    ngx_str_t                    line;
    ngx_connection_t            *c;
    ngx_http_request_t          *r;
    ngx_http_etcd_lock_serve_t  *serve;

    serve = ev->data;
    r = serve->request;
    c = r->connection;

    if (!ngx_http_etcd_lock_serve_lasts(r)) {
        return;
    }

    ngx_http_set_log_request(c->log, r);

    if (ngx_etcd_grant_lost(r->pool, r, c->log) != NULL) {
        ngx_http_etcd_lock_serve_lost(r);
        rc = NGX_ERROR;

    } else if (ngx_http_etcd_lock_serve_busy(r)) {
        ngx_add_timer(ev, NGX_HTTP_ETCD_LOCK_SERVE_BUSY);
        rc = NGX_OK;

    } else {
        line.data = serve->line;
        line.len = ngx_http_etcd_lock_serve_held(serve, line.data) - line.data;
        rc = ngx_http_etcd_lock_serve_line(r, &serve->buf, &line);
    }

    ngx_http_etcd_lock_serve_sent(r, rc);

    ngx_http_run_posted_requests(c);
}


static void
ngx_http_etcd_lock_serve_begin(ngx_http_request_t *r)
{
#ifdef TCP_USER_TIMEOUT
    int                          ms;
#endif
    u_char                      *p;
    ngx_int_t                    rc;
    ngx_str_t                    line, token;
    ngx_http_cleanup_t          *cln;
    ngx_http_etcd_loc_conf_t    *elcf;
    ngx_http_etcd_lock_serve_t  *serve;

    elcf = ngx_http_get_module_loc_conf(r, ngx_http_etcd_module);

    cln = ngx_http_cleanup_add(r, sizeof(ngx_http_etcd_lock_serve_t));

    if (cln == NULL
        || ngx_http_complex_value(r, elcf->lock_serve, &token) != NGX_OK
        || (line.data = ngx_pnalloc(r->pool,
                                    token.len + NGX_HTTP_ETCD_LOCK_SERVE_HELD))
           == NULL
        || ngx_http_etcd_header_add(r, ngx_http_etcd_lock_serve_headers)
           != NGX_OK
        || ngx_http_etcd_client_watch(r) != NGX_OK)
    {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }

    r->keepalive = 0;
    r->headers_out.status = NGX_HTTP_OK;
    ngx_str_set(&r->headers_out.content_type, "text/plain");
    r->headers_out.content_type_len = r->headers_out.content_type.len;

    rc = ngx_http_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK) {
        ngx_http_finalize_request(r, rc);
        return;
    }

#ifdef TCP_USER_TIMEOUT

    /*
     * The machine of the client may vanish without a word: pings that nobody
     * acknowledges end the connection.  Other sockets have no such option.
     */

    ms = NGX_HTTP_ETCD_LOCK_SERVE_PINGS
         * ngx_min(elcf->lock_serve_ping,
                   NGX_MAX_INT32_VALUE / NGX_HTTP_ETCD_LOCK_SERVE_PINGS);

    (void) setsockopt(r->connection->fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
                      (const void *) &ms, sizeof(int));

#endif

    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_etcd_lock_serve_write;

    serve = cln->data;
    ngx_memzero(serve, sizeof(ngx_http_etcd_lock_serve_t));

    cln->handler = ngx_http_etcd_lock_serve_cleanup;

    serve->request = r;

    /* not cancelable: a worker that shuts down stays while it has the lock */

    ngx_etcd_event_init(&serve->ping, ngx_http_etcd_lock_serve_ping, serve,
                        r->connection->log);

    p = ngx_cpymem(line.data, token.data, token.len);
    line.len = ngx_http_etcd_lock_serve_held(serve, p) - line.data;

    ngx_http_etcd_lock_serve_sent(r,
        ngx_http_etcd_lock_serve_line(r, &serve->buf, &line));
}


static ngx_int_t
ngx_http_etcd_lock_serve_handler(ngx_http_request_t *r)
{
    ngx_int_t  rc;

    /* the end of the client is not seen behind a body that nobody reads */

    rc = ngx_http_read_client_request_body(r, ngx_http_etcd_lock_serve_begin);

    return (rc >= NGX_HTTP_SPECIAL_RESPONSE) ? rc : NGX_DONE;
}


/*
 * HEAD could not tell what GET would get, but by taking the lock.  A request
 * would wait for its subrequest without end.
 */

ngx_int_t
ngx_http_etcd_lock_serve_refuse(ngx_http_request_t *r)
{
    if (r->content_handler != ngx_http_etcd_lock_serve_handler) {
        return NGX_DECLINED;
    }

    return (r == r->main && (r->method & (NGX_HTTP_GET|NGX_HTTP_POST)))
           ? NGX_DECLINED : NGX_HTTP_NOT_ALLOWED;
}


char *
ngx_http_etcd_lock_serve(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_etcd_loc_conf_t *elcf = conf;

    ngx_http_core_loc_conf_t  *clcf;

    if (elcf->lock_serve != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    elcf->lock_serve = ngx_http_etcd_set_compile(cf,
                                             &ngx_http_etcd_lock_serve_first);
    if (elcf->lock_serve == NULL) {
        return NGX_CONF_ERROR;
    }

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    clcf->handler = ngx_http_etcd_lock_serve_handler;

    return NGX_CONF_OK;
}


/* A block within the location may process the request: see _status.c. */

char *
ngx_http_etcd_lock_serve_merge(ngx_conf_t *cf, ngx_http_etcd_loc_conf_t *prev,
    ngx_http_etcd_loc_conf_t *elcf)
{
    char                      *why;
    ngx_uint_t                 i, pass;
    ngx_etcd_lock_conf_t      *lock;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    if (clcf->noname) {
        ngx_conf_merge_ptr_value(elcf->lock_serve, prev->lock_serve,
                                 NGX_CONF_UNSET_PTR);
    }

    if (clcf->lmt_excpt
        && clcf->handler == NULL
        && elcf->lock_serve != NGX_CONF_UNSET_PTR)
    {
        clcf->handler = ngx_http_etcd_lock_serve_handler;
    }

    if (clcf->handler != ngx_http_etcd_lock_serve_handler) {
        return NGX_CONF_OK;
    }

    pass = 0;
    lock = (elcf->locks != NULL) ? elcf->locks->elts : NULL;

    for (i = 0; lock != NULL && i < elcf->locks->nelts; i++) {
        pass |= lock[i].pass;
    }

    why = (lock == NULL) ? "needs \"etcd_lock\""
          : pass ? "cannot be used with \"empty=pass\""
          : (elcf->lock_lost == NGX_ETCD_LOCK_CONTINUE)
            ? "cannot be used with \"etcd_lock_lost continue\"" : NULL;

    if (why != NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"etcd_lock_serve\" in location \"%V\" %s",
                           &clcf->name, why);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}
