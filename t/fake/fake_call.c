
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "fake_etcd.h"


static int  ncalls;


static nghttp2_nv
header(const char *name, const char *value)
{
    nghttp2_nv  nv;

    nv.name = (uint8_t *) name;
    nv.namelen = strlen(name);
    nv.value = (uint8_t *) value;
    nv.valuelen = strlen(value);
    nv.flags = NGHTTP2_NV_FLAG_NONE;

    return nv;
}


static int
ends_stream(stream_t *s)
{
    return is_mode("stream-end") && strstr(s->method, "RangeStream");
}


static ssize_t
on_read(nghttp2_session *session, int32_t id, uint8_t *buf, size_t length,
    uint32_t *flags, nghttp2_data_source *source, void *data)
{
    size_t       n;
    stream_t    *s = source->ptr;
    nghttp2_nv   nv[2];

    n = s->nout - s->sent;

    if (n > length) {
        n = length;
    }

    if (n > 1 && is_mode("split1")) {
        n = 1;
    }

    memcpy(buf, s->out + s->sent, n);
    s->sent += n;

    if (s->sent == s->nout && s->last) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;

        if (!is_mode_of(s, "no-status")) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;

            nv[0] = header("grpc-status", (ends_watches() && s->nwatches)
                                          || ends_stream(s)
                                          ? fake.arg : "0");
            nv[1] = header("grpc-message", "");

            nghttp2_submit_trailer(session, id, nv, 2);
        }

    } else if (n == 0) {
        return NGHTTP2_ERR_DEFERRED;
    }

    return n;
}


void
answer(stream_t *s, int last)
{
    static char            big[10000];
    int                    i, n;
    nghttp2_nv             nv[16];
    nghttp2_data_provider  provider;

    s->last = last;

    if (s->answered) {
        nghttp2_session_resume_data(s->conn->session, s->id);
        return;
    }

    s->answered = 1;

    if (is_mode_of(s, "continue")) {
        nv[0] = header(":status", "100");
        nghttp2_submit_headers(s->conn->session, 0, s->id, NULL, nv, 1, NULL);

        nv[0] = header(":status", "103");
        nv[1] = header("grpc-status", "13");
        nghttp2_submit_headers(s->conn->session, 0, s->id, NULL, nv, 2, NULL);
    }

    n = 0;
    nv[n++] = header(":status", "200");
    nv[n++] = header("content-type", "application/grpc");

    if (is_mode_of(s, "big-headers")) {
        memset(big, 'x', sizeof(big) - 1);

        for (i = 0; i < 10; i++) {
            nv[n++] = header("x-big", big);
        }
    }

    provider.source.ptr = s;
    provider.read_callback = on_read;

    nghttp2_submit_response(s->conn->session, s->id, nv, n, &provider);
}


/* trailers only */

void
refuse(stream_t *s, const char *code, const char *text)
{
    nghttp2_nv  nv[4];

    nv[0] = header(":status", "200");
    nv[1] = header("content-type", "application/grpc");
    nv[2] = header("grpc-status", code);
    nv[3] = header("grpc-message", text);

    nghttp2_submit_response(s->conn->session, s->id, nv, 4, NULL);
    s->answered = 1;
}


/* RST, trailers or GOAWAY for a call that was answered long ago */

void
end_running(stream_t *s)
{
    static const uint8_t   text[] = "no reason";
    nghttp2_session       *session = s->conn->session;

    s->end_time = 0;

    printf("%ld end-running conn=%d stream=%d\n", now_ms(), s->conn->number,
           (int) s->id);

    if (is_mode("watch-rst")) {
        nghttp2_submit_rst_stream(session, 0, s->id, mode_number(2));

    } else if (ends_watches()) {
        answer(s, 1);

        /* the RST would go before trailers that are not sent yet */

        if (is_mode("watch-end-rst") && nghttp2_session_send(session) == 0) {
            nghttp2_submit_rst_stream(session, 0, s->id, NGHTTP2_NO_ERROR);
        }

    } else {
        nghttp2_submit_goaway(session, 0, mode_number(0), NGHTTP2_NO_ERROR,
                              text, sizeof(text) - 1);
    }
}


static int
on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame,
    void *data)
{
    stream_t  *s;

    s = calloc(1, sizeof(stream_t));
    s->conn = data;
    s->id = frame->hd.stream_id;
    s->next = fake.streams;
    fake.streams = s;

    nghttp2_session_set_stream_user_data(session, s->id, s);

    return 0;
}


static int
on_header(nghttp2_session *session, const nghttp2_frame *frame,
    const uint8_t *name, size_t namelen, const uint8_t *value,
    size_t valuelen, uint8_t flags, void *data)
{
    stream_t  *s;

    s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    if (s && namelen == 5 && memcmp(name, ":path", 5) == 0) {
        snprintf(s->method, sizeof(s->method), "%.*s", (int) valuelen,
                 (const char *) value);
    }

    return 0;
}


/* modes that answer a call without looking at its message */

static void
on_call(nghttp2_session *session, stream_t *s)
{
    char         code[16], *text;
    nghttp2_nv   nv[2];

    if (is_aside(s)) {
        return;
    }

    ncalls++;
    s->conn->calls++;

    printf("%ld call conn=%d stream=%d n=%d %s\n", now_ms(), s->conn->number,
           (int) s->id, ncalls, s->method);

    if (is_mode_of(s, "refuse-first") && ncalls <= mode_number(1)) {
        nghttp2_submit_rst_stream(session, 0, s->id, NGHTTP2_REFUSED_STREAM);

    } else if (is_mode_of(s, "rst")) {
        nghttp2_submit_rst_stream(session, 0, s->id, mode_number(2));

    } else if (is_mode_of(s, "trailers-only") && fake.arg) {
        text = strchr(fake.arg, ':');
        snprintf(code, sizeof(code), "%ld", mode_number(0));

        refuse(s, code, text ? text + 1 : "");

    } else if (is_mode_of(s, "http-status") && fake.arg) {
        nv[0] = header(":status", fake.arg);
        nv[1] = header("content-type", "text/html");
        nghttp2_submit_response(session, s->id, nv, 2, NULL);
        s->answered = 1;

    } else if (is_mode("goaway-drain")
               && s->conn->calls == mode_number(1))
    {
        nghttp2_submit_goaway(session, 0, s->id, NGHTTP2_NO_ERROR, NULL, 0);
    }
}


static int
on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    conn_t    *c = data;
    stream_t  *s;

    if (frame->hd.type == NGHTTP2_PING
        && !(frame->hd.flags & NGHTTP2_FLAG_ACK))
    {
        printf("%ld ping conn=%d\n", now_ms(), c->number);

        if (is_mode("too-many-pings") && ++c->pings == mode_number(1)) {
            nghttp2_submit_goaway(session, 0,
                                  nghttp2_session_get_last_proc_stream_id(
                                                                     session),
                                  NGHTTP2_ENHANCE_YOUR_CALM,
                                  (const uint8_t *) "too_many_pings", 14);
        }
    }

    if (frame->hd.type == NGHTTP2_HEADERS) {
        s = nghttp2_session_get_stream_user_data(session,
                                                 frame->hd.stream_id);
        if (s) {
            on_call(session, s);
        }
    }

    return 0;
}


static int
on_data(nghttp2_session *session, uint8_t flags, int32_t id,
    const uint8_t *p, size_t n, void *data)
{
    size_t     len;
    stream_t  *s;

    s = nghttp2_session_get_stream_user_data(session, id);

    if (s == NULL || is_mode_of(s, "rst") || is_mode_of(s, "trailers-only")
        || is_mode_of(s, "http-status") || s->nin + n > FAKE_MAX_REQUEST
        || (is_mode_of(s, "refuse-first") && ncalls <= mode_number(1)))
    {
        return 0;
    }

    memcpy(s->in + s->nin, p, n);
    s->nin += n;

    while (s->nin >= FAKE_PREFIX) {
        len = (size_t) s->in[1] << 24 | s->in[2] << 16 | s->in[3] << 8
              | s->in[4];

        if (len > s->nin - FAKE_PREFIX) {
            break;
        }

        on_message(s, s->in + FAKE_PREFIX, len);

        s->nin -= FAKE_PREFIX + len;
        memmove(s->in, s->in + FAKE_PREFIX + len, s->nin);
    }

    return 0;
}


void
free_stream(stream_t *s)
{
    stream_t  **p;

    for (p = &fake.streams; *p != s; p = &(*p)->next) { /* void */ }

    *p = s->next;

    while (s->nheld) {
        etcd__watch_request__free_unpacked(s->held[--s->nheld], NULL);
    }

    free(s->out);
    free(s);
}


static int
on_stream_close(nghttp2_session *session, int32_t id, uint32_t code,
    void *data)
{
    conn_t    *c = data;
    stream_t  *s;

    s = nghttp2_session_get_stream_user_data(session, id);

    if (s) {
        printf("%ld end conn=%d stream=%d code=%u\n", now_ms(), c->number,
               (int) id, code);
        free_stream(s);
    }

    return 0;
}


static ssize_t
on_send(nghttp2_session *session, const uint8_t *p, size_t n, int flags,
    void *data)
{
    conn_t   *c = data;
    ssize_t   rc;

    rc = send(c->fd, p, n, MSG_NOSIGNAL);

    return rc < 0 ? NGHTTP2_ERR_CALLBACK_FAILURE : rc;
}


void
conn_session(conn_t *c)
{
    nghttp2_option             *option;
    nghttp2_settings_entry      iv;
    nghttp2_session_callbacks  *cb;

    nghttp2_session_callbacks_new(&cb);
    nghttp2_session_callbacks_set_send_callback(cb, on_send);
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb,
                                                            on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb,
                                                           on_stream_close);

    nghttp2_option_new(&option);
    nghttp2_option_set_max_send_header_block_length(option, 1024 * 1024);

    nghttp2_session_server_new2(&c->session, cb, c, option);

    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(cb);

    iv.settings_id = NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS;
    iv.value = fake.max_streams;

    nghttp2_submit_settings(c->session, 0, &iv, 1);
    nghttp2_session_send(c->session);
}
