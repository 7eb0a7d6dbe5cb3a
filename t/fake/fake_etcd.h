
/*
 * Copyright (C) nginx-etcd contributors
 *
 * An etcd for tests that answers as a real one cannot be made to: one
 * thread, poll(), blocking writes.
 *
 *     fake_etcd.c   options, connections
 *     fake_call.c   HTTP/2 streams and gRPC framing
 *     fake_kv.c     what Range and Watch answer
 */


#ifndef _FAKE_ETCD_H_INCLUDED_
#define _FAKE_ETCD_H_INCLUDED_


#include <stddef.h>
#include <stdint.h>
#include <nghttp2/nghttp2.h>
#include "ngx_etcd_proto.pb-c.h"


#define FAKE_MAX_CONNS    64
#define FAKE_MAX_PAIRS    256
#define FAKE_MAX_REQUEST  65536
#define FAKE_PREFIX       5           /* a flag and the length */
#define FAKE_EVENT_DELAY  200
#define FAKE_MAX_HELD     64
#define FAKE_MAX_ANSWERS  8


typedef struct {
    char                 *key;
    char                 *value;
    int64_t               mod_revision;
    int                   deleted;
} pair_t;


typedef struct {
    pair_t                pairs[FAKE_MAX_PAIRS];
    int                   n;
} pairs_t;


typedef struct {
    int                   fd;              /* 0: the slot is free */
    int                   number;
    int                   calls;
    int                   pings;
    size_t                flooded;         /* bytes of a frame of a flood */
    long                  opened;
    nghttp2_session      *session;
} conn_t;


typedef struct stream_s  stream_t;

struct stream_s {
    stream_t             *next;
    conn_t               *conn;
    int32_t               id;
    char                  method[64];

    uint8_t               in[FAKE_MAX_REQUEST];
    size_t                nin;

    uint8_t              *out;
    size_t                nout;
    size_t                sent;
    int                   answered;        /* response headers are out */
    int                   last;            /* trailers after out */
    int                   nwatches;

    /* creates that are answered together, and when */
    Etcd__WatchRequest   *held[FAKE_MAX_HELD];
    int                   nheld;
    long                  held_time;

    /* the events that are left to send, and when */
    int                   next_event;
    int64_t               event_watch;
    long                  event_time;

    /* of a watch that is to end while it runs */
    long                  end_time;
};


typedef struct {
    char                  name[32];
    char                 *arg;             /* after the first colon */
    char                 *only;            /* in a method: calls it is for */

    pairs_t               kvs;
    pairs_t               events;
    int64_t               event_revision;  /* 0: the events are to come */
    int64_t               revision;
    uint64_t              cluster_id;
    char                 *version;
    uint32_t              max_streams;
    size_t                chunk;           /* keys of a page; 0: any */
    int                   watched;         /* the first connection with a
                                              watch */

    const char           *answers[FAKE_MAX_ANSWERS];   /* METHOD=FILE */
    int                   nanswers;

    stream_t             *streams;
} fake_t;


extern fake_t  fake;


long now_ms(void);
int is_mode(const char *name);
int is_status(stream_t *s);
int is_identify(stream_t *s);
int is_aside(stream_t *s);
int is_mode_of(stream_t *s, const char *name);
long mode_number(long otherwise);
int ends_watches(void);

void conn_session(conn_t *c);
void answer(stream_t *s, int last);
void refuse(stream_t *s, const char *code, const char *text);
void end_running(stream_t *s);
void free_stream(stream_t *s);

/* one message of a call */
void on_message(stream_t *s, uint8_t *p, size_t n);
void send_events(stream_t *s);
void release_creates(stream_t *s);


#endif /* _FAKE_ETCD_H_INCLUDED_ */
