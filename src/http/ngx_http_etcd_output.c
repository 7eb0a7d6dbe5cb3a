
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Sends a status while it is rendered, in steps: a step renders for some
 * microseconds and sends the text, the next one follows in the next cycle of
 * the event loop.  Nothing is rendered while the client does not accept data.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_event.h>
#include <ngx_http_etcd_client.h>
#include <ngx_http_etcd_output.h>


/* limits of a step, in us and bytes; a smaller text has a known length */

#define NGX_HTTP_ETCD_OUTPUT_BUDGET    50
#define NGX_HTTP_ETCD_OUTPUT_PIECE     12288

/* ms between attempts to lock a mutex, and of all of them */

#define NGX_HTTP_ETCD_OUTPUT_PAUSE     1
#define NGX_HTTP_ETCD_OUTPUT_PATIENCE  1000


typedef struct {
    ngx_http_request_t            *request;
    ngx_etcd_status_t             *status;
    ngx_event_t                    event;       /* of the next step, unless the
                                                   client is waited for */
    ngx_chain_t                   *busy;        /* not sent yet */
    ngx_msec_t                     since;       /* start of waiting for the
                                                   mutex */
    unsigned                       waiting:1;   /* for the mutex */
    unsigned                       headed:1;    /* the header was sent */
    unsigned                       complete:1;  /* all text was rendered */
} ngx_http_etcd_output_t;


/*
 * A worker that shuts down exits when there are no timers, even if events are
 * posted: keep a timer.  The timer of the connection belongs to the request
 * that may send now.
 */

static void
ngx_http_etcd_output_timer(ngx_http_etcd_output_t *output)
{
    ngx_event_t               *wev;
    ngx_http_request_t        *r;
    ngx_http_core_loc_conf_t  *clcf;

    r = output->request;
    wev = r->connection->write;
    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    if (r->connection->data == r && !wev->delayed) {
        ngx_add_timer(wev, clcf->send_timeout);
    }
}


static ngx_int_t
ngx_http_etcd_output_next(ngx_http_etcd_output_t *output)
{
    ngx_http_etcd_output_timer(output);
    ngx_post_event(&output->event, &ngx_posted_next_events);

    return NGX_DONE;
}


/* A stopped process may hold the mutex: the wait is limited. */

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

    ngx_http_etcd_output_timer(output);
    ngx_add_timer(&output->event, NGX_HTTP_ETCD_OUTPUT_PAUSE);

    return NGX_DONE;
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

    /* a header that is not sent completely does not delay the body */

    return (rc == NGX_AGAIN) ? NGX_OK : rc;
}


/* Passes the new text, or buffered output, to the filters. */

static ngx_int_t
ngx_http_etcd_output_filter(ngx_http_etcd_output_t *output)
{
    ngx_int_t                rc;
    ngx_buf_t               *b;
    ngx_chain_t             *out;
    ngx_http_request_t      *r;
    ngx_etcd_text_buffer_t  *buffer;

    r = output->request;
    buffer = &output->status->out;
    b = buffer->buf;

    out = ngx_etcd_text_buffer_take(buffer);

    if (output->complete && out == NULL) {
        return ngx_http_send_special(r, NGX_HTTP_LAST);
    }

    if (b != NULL) {
        b->flush = !output->complete;
        b->last_buf = (output->complete && r == r->main);
        b->last_in_chain = output->complete;
    }

    rc = ngx_http_output_filter(r, out);

    ngx_chain_update_chains(r->pool, &buffer->free, &output->busy, &out,
                            buffer->tag);

    return rc;
}


/* Waits until the client has accepted data. */

static ngx_int_t
ngx_http_etcd_output_wait(ngx_http_etcd_output_t *output)
{
    ngx_event_t               *wev;
    ngx_http_request_t        *r;
    ngx_http_core_loc_conf_t  *clcf;

    r = output->request;
    wev = r->connection->write;
    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);

    /* a subrequest behind others is called when its turn comes */

    if (r->connection->data != r) {
        return NGX_DONE;
    }

    if (ngx_handle_write_event(wev, clcf->send_lowat) != NGX_OK) {
        return NGX_ERROR;
    }

    if (wev->active && !wev->ready && !wev->delayed) {
        ngx_add_timer(wev, clcf->send_timeout);
    }

    return NGX_DONE;
}


/* NGX_DONE: continues later.  Other values end the request. */

static ngx_int_t
ngx_http_etcd_output_step(ngx_http_etcd_output_t *output)
{
    ngx_int_t           rc;
    ngx_etcd_status_t  *status;

    status = output->status;

    if (!output->complete && output->busy == NULL) {
        rc = ngx_etcd_status_run(status,
                                 ngx_etcd_time_budget_now()
                                 + NGX_HTTP_ETCD_OUTPUT_BUDGET,
                                 NGX_HTTP_ETCD_OUTPUT_PIECE);

        if (rc == NGX_ERROR) {
            return output->headed ? NGX_ERROR : NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        if (rc == NGX_BUSY) {
            return ngx_http_etcd_output_busy(output);
        }

        output->waiting = 0;
        output->complete = (rc == NGX_OK);

        if (!output->complete
            && status->out.size < NGX_HTTP_ETCD_OUTPUT_PIECE)
        {
            return ngx_http_etcd_output_next(output);
        }
    }

    rc = ngx_http_etcd_output_header(output);

    if (rc != NGX_OK || output->request->header_only) {
        return rc;
    }

    rc = ngx_http_etcd_output_filter(output);

    if (rc == NGX_ERROR || output->complete) {
        return rc;
    }

    return output->busy ? ngx_http_etcd_output_wait(output)
                        : ngx_http_etcd_output_next(output);
}


static void
ngx_http_etcd_output_event(ngx_event_t *ev)
{
    uint64_t                 begun;
    ngx_int_t                rc;
    ngx_event_t             *wev;
    ngx_connection_t        *c;
    ngx_etcd_conf_t        **ecf;
    ngx_http_request_t      *r;
    ngx_http_etcd_output_t  *output;

    output = ev->data;
    r = output->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    begun = ngx_etcd_time_budget_now();

    rc = ngx_http_etcd_output_step(output);

    if (output->status->conf->clusters.nelts != 0) {
        ecf = output->status->conf->clusters.elts;
        ngx_etcd_zone_stalled(&ecf[0]->zone,
                              ngx_etcd_time_budget_now() - begun);
    }

    if (rc != NGX_DONE) {
        wev = c->write;

        if (wev->timer_set && !wev->delayed) {
            ngx_del_timer(wev);
        }

        ngx_http_finalize_request(r, rc);
    }

    ngx_http_run_posted_requests(c);
}


static void
ngx_http_etcd_output_cleanup(void *data)
{
    ngx_http_etcd_output_t *output = data;

    ngx_etcd_event_stop(&output->event);
    ngx_etcd_status_destroy(output->status);
}


/*
 * The context of the request is its peer data: outputs are found in the cleanup
 * list.
 */

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
ngx_http_etcd_output_write(ngx_http_request_t *r)
{
    ngx_event_t             *wev;
    ngx_connection_t        *c;
    ngx_http_etcd_output_t  *output;

    c = r->connection;
    wev = c->write;
    output = ngx_http_etcd_output_of(r);

    if (output == NULL
        || output->event.posted
        || output->event.timer_set
        || wev->delayed
        || r->aio)
    {
        /* this output is waiting, not the client */

        if (wev->timedout && output != NULL) {
            wev->timedout = 0;
            ngx_http_etcd_output_timer(output);
        }

        if (ngx_handle_write_event(wev, 0) != NGX_OK) {
            ngx_http_finalize_request(r, NGX_ERROR);
        }

        return;
    }

    if (wev->timedout) {
        ngx_connection_error(c, NGX_ETIMEDOUT, "client timed out");
        c->timedout = 1;
        ngx_http_finalize_request(r, NGX_HTTP_REQUEST_TIME_OUT);
        return;
    }

    (void) ngx_http_etcd_output_next(output);
}


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

    ngx_etcd_event_init(&output->event, ngx_http_etcd_output_event, output,
                        r->connection->log);

    if (ngx_http_etcd_client_watch(r) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_etcd_output_write;

    r->main->count++;

    return ngx_http_etcd_output_next(output);
}
