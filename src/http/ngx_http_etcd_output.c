
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Sends a status while it is rendered, in steps: one step renders for some
 * microseconds, another one sends the result.  Nothing is rendered while the
 * client does not accept data.
 *
 * All statuses of a worker take turns.  An idle worker makes one step per
 * cycle of its event loop.  If the worker had other work since the last step,
 * the next step is delayed: all statuses together take about a hundredth of
 * the worker's time, and other events wait for one short step at most.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_etcd_clock.h>
#include <ngx_http_etcd_client.h>
#include <ngx_http_etcd_output.h>


/*
 * limits of a rendering step in us and bytes; a smaller text has a known
 * length
 */

#define NGX_HTTP_ETCD_OUTPUT_BUDGET    10
#define NGX_HTTP_ETCD_OUTPUT_PIECE     12288

/*
 * us between steps: after a longer gap other work was done, and the next step
 * is delayed by PAUSE ms
 */

#define NGX_HTTP_ETCD_OUTPUT_GAP       5
#define NGX_HTTP_ETCD_OUTPUT_PAUSE     1

/* ms to wait for a mutex */

#define NGX_HTTP_ETCD_OUTPUT_PATIENCE  1000


typedef enum {
    NGX_HTTP_ETCD_OUTPUT_RENDER = 0,
    NGX_HTTP_ETCD_OUTPUT_SEND,        /* until all output is passed to the
                                         client */
    NGX_HTTP_ETCD_OUTPUT_WAIT         /* until the client accepts more */
} ngx_http_etcd_output_state_e;


typedef struct {
    ngx_http_request_t            *request;
    ngx_etcd_status_t             *status;
    ngx_http_etcd_output_state_e   state;
    ngx_queue_t                    queue;       /* in pace->queue */
    ngx_chain_t                   *busy;        /* not sent yet */
    ngx_msec_t                     since;       /* start of waiting for the
                                                   mutex */
    unsigned                       queued:1;
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


static void
ngx_http_etcd_output_post(ngx_http_etcd_pace_t *pace)
{
    if (pace->event.posted || pace->event.timer_set) {
        return;
    }

    pace->posted = ngx_etcd_time_budget_now();
    pace->event.log = ngx_cycle->log;

    ngx_post_event(&pace->event, &ngx_posted_next_events);
}


static void
ngx_http_etcd_output_enqueue(ngx_http_etcd_output_t *output)
{
    ngx_http_etcd_main_conf_t  *emcf;

    emcf = ngx_http_get_module_main_conf(output->request,
                                         ngx_http_etcd_module);

    ngx_queue_insert_tail(&emcf->pace.queue, &output->queue);
    output->queued = 1;

    ngx_http_etcd_output_timer(output);
    ngx_http_etcd_output_post(&emcf->pace);
}


/* A stopped process may hold the mutex: the wait is limited. */

static ngx_int_t
ngx_http_etcd_output_busy(ngx_http_etcd_output_t *output)
{
    ngx_http_etcd_main_conf_t  *emcf;

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

    emcf = ngx_http_get_module_main_conf(output->request,
                                         ngx_http_etcd_module);

    ngx_add_timer(&emcf->pace.event, NGX_HTTP_ETCD_OUTPUT_PAUSE);

    ngx_http_etcd_output_enqueue(output);

    return NGX_DONE;
}


/* NGX_DONE: continues later.  Other values end the request. */

static ngx_int_t
ngx_http_etcd_output_render(ngx_http_etcd_output_t *output)
{
    ngx_int_t           rc;
    ngx_etcd_status_t  *status;

    status = output->status;

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

    if (output->complete || status->out.size >= NGX_HTTP_ETCD_OUTPUT_PIECE) {
        output->state = NGX_HTTP_ETCD_OUTPUT_SEND;
    }

    ngx_http_etcd_output_enqueue(output);

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


static ngx_int_t
ngx_http_etcd_output_send(ngx_http_etcd_output_t *output)
{
    ngx_int_t  rc;

    rc = ngx_http_etcd_output_header(output);

    if (rc != NGX_OK || output->request->header_only) {
        return rc;
    }

    rc = ngx_http_etcd_output_filter(output);

    if (rc == NGX_ERROR || output->complete) {
        return rc;
    }

    if (output->busy != NULL) {
        output->state = NGX_HTTP_ETCD_OUTPUT_WAIT;
        return ngx_http_etcd_output_wait(output);
    }

    output->state = NGX_HTTP_ETCD_OUTPUT_RENDER;

    ngx_http_etcd_output_enqueue(output);

    return NGX_DONE;
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

    begun = ngx_etcd_time_budget_now();

    rc = (output->state == NGX_HTTP_ETCD_OUTPUT_RENDER)
         ? ngx_http_etcd_output_render(output)
         : ngx_http_etcd_output_send(output);

    if (n != 0) {
        ngx_etcd_zone_stalled(&ecf[0]->zone,
                              ngx_etcd_time_budget_now() - begun);
    }

    if (rc == NGX_DONE) {
        return;
    }

    wev = output->request->connection->write;

    if (wev->timer_set && !wev->delayed) {
        ngx_del_timer(wev);
    }

    ngx_http_finalize_request(output->request, rc);
}


/* Runs one step of the output that has waited longest. */

static void
ngx_http_etcd_output_event(ngx_event_t *ev)
{
    ngx_uint_t               paused;
    ngx_queue_t             *q;
    ngx_connection_t        *c;
    ngx_http_etcd_pace_t    *pace;
    ngx_http_etcd_output_t  *output;

    pace = ev->data;
    paused = ev->timedout;

    ev->timedout = 0;

    if (ngx_queue_empty(&pace->queue)) {
        return;
    }

    if (!paused
        && ngx_etcd_time_budget_now() - pace->posted > NGX_HTTP_ETCD_OUTPUT_GAP)
    {
        ngx_add_timer(ev, NGX_HTTP_ETCD_OUTPUT_PAUSE);
        return;
    }

    q = ngx_queue_head(&pace->queue);
    ngx_queue_remove(q);

    output = ngx_queue_data(q, ngx_http_etcd_output_t, queue);
    output->queued = 0;

    c = output->request->connection;

    ngx_http_set_log_request(c->log, output->request);

    ngx_http_etcd_output_run(output);

    ngx_http_run_posted_requests(c);

    if (!ngx_queue_empty(&pace->queue)) {
        ngx_http_etcd_output_post(pace);
    }
}


void
ngx_http_etcd_output_init(ngx_http_etcd_pace_t *pace)
{
    ngx_queue_init(&pace->queue);

    pace->event.handler = ngx_http_etcd_output_event;
    pace->event.data = pace;
}


static void
ngx_http_etcd_output_cleanup(void *data)
{
    ngx_http_etcd_output_t *output = data;

    if (output->queued) {
        ngx_queue_remove(&output->queue);
    }

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
        || output->state != NGX_HTTP_ETCD_OUTPUT_WAIT
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

    output->state = NGX_HTTP_ETCD_OUTPUT_SEND;

    ngx_http_etcd_output_enqueue(output);
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

    if (ngx_http_etcd_client_watch(r) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_etcd_output_write;

    r->main->count++;

    ngx_http_etcd_output_enqueue(output);

    return NGX_DONE;
}
