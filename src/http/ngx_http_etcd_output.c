
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Sends a status while it is rendered: some of it, then other connections have
 * their turn, and no more than the client takes.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_etcd_stall.h>
#include <ngx_http_etcd_module.h>


/* bytes that are sent at a time: what is less has a known length */

#define NGX_HTTP_ETCD_OUTPUT_PIECE     32768

/* ms until a busy mutex is tried again, and until that is given up */

#define NGX_HTTP_ETCD_OUTPUT_BUSY      1
#define NGX_HTTP_ETCD_OUTPUT_PATIENCE  1000


typedef struct {
    ngx_http_request_t   *request;
    ngx_etcd_status_t    *status;
    ngx_event_t           event;      /* posted: the next piece; its timer: the
                                         mutex */
    ngx_chain_t          *busy;       /* not sent yet */
    ngx_msec_t            since;      /* the mutex was not free */
    unsigned              waiting:1;  /* for it */
    unsigned              headed:1;   /* the header is sent */
    unsigned              complete:1;
} ngx_http_etcd_output_t;


static void ngx_http_etcd_output_cleanup(void *data);
static void ngx_http_etcd_output_event(ngx_event_t *ev);
static void ngx_http_etcd_output_write(ngx_http_request_t *r);
static ngx_http_etcd_output_t *ngx_http_etcd_output_of(ngx_http_request_t *r);
static void ngx_http_etcd_output_run(ngx_http_etcd_output_t *output);
static ngx_int_t ngx_http_etcd_output_step(ngx_http_etcd_output_t *output);
static ngx_int_t ngx_http_etcd_output_busy(ngx_http_etcd_output_t *output);
static ngx_int_t ngx_http_etcd_output_header(ngx_http_etcd_output_t *output);
static ngx_int_t ngx_http_etcd_output_send(ngx_http_etcd_output_t *output);
static ngx_int_t ngx_http_etcd_output_more(ngx_http_etcd_output_t *output);
static ngx_int_t ngx_http_etcd_output_wait(ngx_http_etcd_output_t *output);


ngx_int_t
ngx_http_etcd_output(ngx_http_request_t *r, ngx_etcd_status_t *status)
{
    ngx_http_cleanup_t      *cln;
    ngx_http_etcd_output_t  *output;

    cln = ngx_http_cleanup_add(r, sizeof(ngx_http_etcd_output_t));
    if (cln == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    output = cln->data;
    ngx_memzero(output, sizeof(ngx_http_etcd_output_t));

    cln->handler = ngx_http_etcd_output_cleanup;

    output->request = r;
    output->status = status;
    output->event.handler = ngx_http_etcd_output_event;
    output->event.data = output;
    output->event.log = r->connection->log;

    if (ngx_http_etcd_watch_client(r) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_etcd_output_write;

    r->main->count++;

    ngx_http_etcd_output_run(output);

    return NGX_DONE;
}


static void
ngx_http_etcd_output_cleanup(void *data)
{
    ngx_http_etcd_output_t *output = data;

    if (output->event.posted) {
        ngx_delete_posted_event(&output->event);
    }

    if (output->event.timer_set) {
        ngx_del_timer(&output->event);
    }

    ngx_etcd_status_destroy(output->status);
}


static void
ngx_http_etcd_output_event(ngx_event_t *ev)
{
    ngx_connection_t        *c;
    ngx_http_request_t      *r;
    ngx_http_etcd_output_t  *output;

    output = ev->data;
    r = output->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    ngx_http_etcd_output_run(output);

    ngx_http_run_posted_requests(c);
}


static void
ngx_http_etcd_output_write(ngx_http_request_t *r)
{
    ngx_event_t             *wev;
    ngx_connection_t        *c;
    ngx_http_etcd_output_t  *output;

    c = r->connection;
    wev = c->write;
    output = ngx_http_etcd_output_of(r);

    if (wev->timedout) {
        ngx_connection_error(c, NGX_ETIMEDOUT, "client timed out");
        c->timedout = 1;
        ngx_http_finalize_request(r, NGX_HTTP_REQUEST_TIME_OUT);
        return;
    }

    /* without anything to be sent it is not what is waited for */

    if (wev->delayed || r->aio || output == NULL || output->busy == NULL) {

        if (ngx_handle_write_event(wev, 0) != NGX_OK) {
            ngx_http_finalize_request(r, NGX_ERROR);
        }

        return;
    }

    ngx_http_etcd_output_run(output);
}


/* the request's context is its route: it is found among the cleanups */

static ngx_http_etcd_output_t *
ngx_http_etcd_output_of(ngx_http_request_t *r)
{
    ngx_http_cleanup_t      *cln;
    ngx_http_etcd_output_t  *output;

    for (cln = r->main->cleanup; cln != NULL; cln = cln->next) {
        output = cln->data;

        if (cln->handler == ngx_http_etcd_output_cleanup
            && output->request == r)
        {
            return output;
        }
    }

    return NULL;
}


static void
ngx_http_etcd_output_run(ngx_http_etcd_output_t *output)
{
    uint64_t           begun;
    ngx_int_t          rc;
    ngx_uint_t         n;
    ngx_event_t       *wev;
    ngx_etcd_conf_t  **ecf;

    ecf = output->status->conf->clusters.elts;
    n = output->status->conf->clusters.nelts;

    begun = ngx_etcd_stall_now();

    rc = ngx_http_etcd_output_step(output);

    if (n != 0) {
        ngx_etcd_zone_stalled(&ecf[0]->zone, ngx_etcd_stall_now() - begun);
    }

    if (rc == NGX_AGAIN && !output->complete) {
        return;
    }

    wev = output->request->connection->write;

    if (wev->timer_set && !wev->delayed) {
        ngx_del_timer(wev);
    }

    ngx_http_finalize_request(output->request, rc);
}


/* NGX_AGAIN: an event will come, or all is said and some is to be sent */

static ngx_int_t
ngx_http_etcd_output_step(ngx_http_etcd_output_t *output)
{
    ngx_int_t           rc;
    ngx_etcd_status_t  *status;

    status = output->status;

    if (output->busy != NULL) {
        rc = ngx_http_etcd_output_send(output);

        if (rc != NGX_OK || output->busy != NULL) {
            return (rc == NGX_OK) ? ngx_http_etcd_output_wait(output) : rc;
        }
    }

    rc = ngx_etcd_status_run(status,
                             ngx_etcd_stall_now() + NGX_ETCD_STALL_BUDGET,
                             NGX_HTTP_ETCD_OUTPUT_PIECE);

    if (rc == NGX_ERROR) {
        return output->headed ? NGX_ERROR : NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    if (rc == NGX_BUSY) {
        return ngx_http_etcd_output_busy(output);
    }

    output->waiting = 0;
    output->complete = (rc == NGX_OK);

    if (!output->complete && status->out.size < NGX_HTTP_ETCD_OUTPUT_PIECE) {
        return ngx_http_etcd_output_more(output);
    }

    rc = ngx_http_etcd_output_header(output);

    if (rc != NGX_OK) {
        output->complete = 1;
        return rc;
    }

    rc = ngx_http_etcd_output_send(output);

    if (rc != NGX_OK || output->complete) {
        return rc;
    }

    return (output->busy != NULL) ? ngx_http_etcd_output_wait(output)
                                  : ngx_http_etcd_output_more(output);
}


/* whoever holds the mutex may be stopped, and is not waited for for ever */

static ngx_int_t
ngx_http_etcd_output_busy(ngx_http_etcd_output_t *output)
{
    if (!output->waiting) {
        output->waiting = 1;
        output->since = ngx_current_msec;
    }

    if (ngx_current_msec - output->since > NGX_HTTP_ETCD_OUTPUT_PATIENCE) {
        ngx_log_error(NGX_LOG_ERR, output->request->connection->log, 0,
                      "etcd status: the mutex of a zone is held for longer "
                      "than %d ms", NGX_HTTP_ETCD_OUTPUT_PATIENCE);

        return output->headed ? NGX_ERROR : NGX_HTTP_SERVICE_UNAVAILABLE;
    }

    ngx_add_timer(&output->event, NGX_HTTP_ETCD_OUTPUT_BUSY);

    return NGX_AGAIN;
}


static ngx_int_t
ngx_http_etcd_output_header(ngx_http_etcd_output_t *output)
{
    ngx_int_t            rc;
    ngx_http_request_t  *r;

    if (output->headed) {
        return NGX_OK;
    }

    r = output->request;
    output->headed = 1;

    if (output->complete) {
        r->headers_out.content_length_n = output->status->out.size;
    }

    rc = ngx_http_send_header(r);

    /* that some of it is not sent yet is no reason not to go on */

    return (rc == NGX_AGAIN) ? NGX_OK : rc;
}


/* what was written, or what could not be sent before */

static ngx_int_t
ngx_http_etcd_output_send(ngx_http_etcd_output_t *output)
{
    ngx_int_t            rc;
    ngx_buf_t           *b;
    ngx_chain_t         *out;
    ngx_http_request_t  *r;
    ngx_etcd_writer_t   *writer;

    r = output->request;
    writer = &output->status->out;
    b = writer->buf;

    out = ngx_etcd_writer_take(writer);

    if (output->complete && out == NULL) {
        return ngx_http_send_special(r, NGX_HTTP_LAST);
    }

    if (b != NULL) {
        b->flush = !output->complete;
        b->last_buf = (output->complete && r == r->main);
        b->last_in_chain = output->complete;
    }

    rc = ngx_http_output_filter(r, out);

    ngx_chain_update_chains(r->pool, &writer->free, &output->busy, &out,
                            writer->tag);

    if (output->complete || rc == NGX_ERROR) {
        return rc;
    }

    return NGX_OK;
}


/*
 * Once those who came meanwhile had their turn.  A worker that shuts down ends
 * when there are no timers any more, whatever is posted: so there is one.
 */

static ngx_int_t
ngx_http_etcd_output_more(ngx_http_etcd_output_t *output)
{
    ngx_event_t               *wev;
    ngx_http_core_loc_conf_t  *clcf;

    wev = output->request->connection->write;
    clcf = ngx_http_get_module_loc_conf(output->request,
                                        ngx_http_core_module);

    if (!wev->delayed) {
        ngx_add_timer(wev, clcf->send_timeout);
    }

    ngx_post_event(&output->event, &ngx_posted_next_events);

    return NGX_AGAIN;
}


/* for the client to take what it was sent */

static ngx_int_t
ngx_http_etcd_output_wait(ngx_http_etcd_output_t *output)
{
    ngx_event_t               *wev;
    ngx_http_request_t        *r;
    ngx_http_core_loc_conf_t  *clcf;

    r = output->request;
    wev = r->connection->write;
    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    /* a subrequest that others go before is called when it is its turn */

    if (r->connection->data != r) {
        return NGX_AGAIN;
    }

    if (ngx_handle_write_event(wev, clcf->send_lowat) != NGX_OK) {
        return NGX_ERROR;
    }

    if (wev->active && !wev->ready && !wev->delayed) {
        ngx_add_timer(wev, clcf->send_timeout);
    }

    return NGX_AGAIN;
}
