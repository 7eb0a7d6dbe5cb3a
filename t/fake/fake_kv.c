
/*
 * Copyright (C) nginx-etcd contributors
 */


#define _GNU_SOURCE
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include "fake_etcd.h"


static int64_t
revision_of(conn_t *c)
{
    const char  *second;

    if (is_mode("revision") && fake.arg) {
        second = strchr(fake.arg, ':');

        return (c->number == fake.watched || second == NULL)
               ? atol(fake.arg) : atol(second + 1);
    }

    return fake.revision;
}


static void
fill_header(Etcd__ResponseHeader *h, conn_t *c)
{
    etcd__response_header__init(h);

    h->cluster_id = fake.cluster_id;
    if (is_mode("other-cluster") && c->number > 1) {
        h->cluster_id++;
    }

    h->member_id = 1;
    h->raft_term = 2;
    h->revision = revision_of(c);
}


static void
queue_message(stream_t *s, ProtobufCMessage *m)
{
    size_t    len, announced;
    uint8_t  *p;

    len = protobuf_c_message_get_packed_size(m);
    announced = len;

    if (is_mode_of(s, "oversize")) {
        announced = mode_number(0x7fffffff);

    } else if (is_mode_of(s, "truncate")) {
        announced = len + 100;
    }

    s->out = realloc(s->out, s->nout + FAKE_PREFIX + len);
    p = s->out + s->nout;

    p[0] = is_mode_of(s, "compressed");
    p[1] = announced >> 24;
    p[2] = announced >> 16;
    p[3] = announced >> 8;
    p[4] = announced;

    protobuf_c_message_pack(m, p + FAKE_PREFIX);
    s->nout += FAKE_PREFIX + len;
}


static void
fill_kv(Etcd__KeyValue *kv, pair_t *pair)
{
    etcd__key_value__init(kv);

    kv->key.data = (uint8_t *) pair->key;
    kv->key.len = strlen(pair->key);
    kv->value.data = (uint8_t *) pair->value;
    kv->value.len = strlen(pair->value);
    kv->create_revision = pair->mod_revision;
    kv->mod_revision = pair->mod_revision;
    kv->version = 1;
}


static int
in_range(pair_t *pair, ProtobufCBinaryData *key, ProtobufCBinaryData *end)
{
    int     rc;
    size_t  len, n;

    len = strlen(pair->key);

    n = len < key->len ? len : key->len;
    rc = n ? memcmp(pair->key, key->data, n) : 0;

    if (end->len == 0) {
        return rc == 0 && len == key->len;
    }

    if (rc < 0 || (rc == 0 && len < key->len)) {
        return 0;
    }

    if (end->len == 1 && end->data[0] == 0) {
        return 1;
    }

    n = len < end->len ? len : end->len;
    rc = memcmp(pair->key, end->data, n);

    return rc < 0 || (rc == 0 && len < end->len);
}


static int
withholds(void)
{
    return is_mode("withhold") || is_mode("withhold-listed");
}


/* keys were read alone: who has waited for that gets the events */

static void
release_events(void)
{
    stream_t  *s;

    for (s = fake.streams; s; s = s->next) {
        if (s->event_time == LONG_MAX) {
            s->event_time = now_ms() + mode_number(0);
        }
    }
}


static void
range(stream_t *s, uint8_t *p, size_t n)
{
    int                     i;
    static long             answers;
    Etcd__KeyValue          kv[FAKE_MAX_PAIRS], *pkv[FAKE_MAX_PAIRS];
    Etcd__RangeRequest     *req;
    Etcd__RangeResponse     res;
    Etcd__ResponseHeader    h;

    req = etcd__range_request__unpack(NULL, n, p);
    if (req == NULL) {
        return;
    }

    etcd__range_response__init(&res);
    fill_header(&h, s->conn);
    res.header = &h;
    res.kvs = pkv;

    for (i = 0; i < fake.kvs.n; i++) {
        if (!in_range(&fake.kvs.pairs[i], &req->key, &req->range_end)) {
            continue;
        }

        res.count++;

        if (fake.kvs.pairs[i].mod_revision < req->min_mod_revision) {
            continue;
        }

        if ((req->limit && (int64_t) res.n_kvs >= req->limit)
            || (fake.chunk && res.n_kvs >= fake.chunk))
        {
            res.more = 1;
            continue;
        }

        fill_kv(&kv[i], &fake.kvs.pairs[i]);
        pkv[res.n_kvs++] = &kv[i];
    }

    if (is_mode("counts-more") && ++answers >= mode_number(0)) {
        res.count++;
    }

    printf("%ld %s conn=%d key=%.*s kvs=%d\n", now_ms(),
           req->count_only ? "count" : req->keys_only ? "keys" : "range",
           s->conn->number,
           (int) req->key.len, (char *) req->key.data, (int) res.n_kvs);

    queue_message(s, &res.base);
    answer(s, 1);

    if (req->keys_only) {
        release_events();
    }

    etcd__range_request__free_unpacked(req, NULL);
}


static int
is_last(int i, Etcd__RangeRequest *req)
{
    while (++i < fake.kvs.n) {
        if (in_range(&fake.kvs.pairs[i], &req->key, &req->range_end)) {
            return 0;
        }
    }

    return 1;
}


static void
range_stream(stream_t *s, uint8_t *p, size_t n)
{
    int                         i, last;
    Etcd__KeyValue              kv;
    Etcd__RangeRequest         *req;
    Etcd__ResponseHeader        h;
    Etcd__RangeStreamResponse   res;
    Etcd__NestedRangeResponse   range;
    ProtobufCBinaryData         chunk, packed[FAKE_MAX_PAIRS];

    req = etcd__range_request__unpack(NULL, n, p);
    if (req == NULL) {
        return;
    }

    printf("%ld stream conn=%d key=%.*s revision=%ld limit=%ld\n", now_ms(),
           s->conn->number, (int) req->key.len, (char *) req->key.data,
           (long) req->revision, (long) req->limit);

    if (fake.chunk == 0) {
        refuse(s, "12", "unknown method RangeStream");
        etcd__range_request__free_unpacked(req, NULL);
        return;
    }

    etcd__range_stream_response__init(&res);
    etcd__nested_range_response__init(&range);
    res.range_response = &chunk;
    res.n_range_response = 1;
    range.kvs = packed;

    for (i = 0, last = 0; i < fake.kvs.n && !last; i++) {
        if (!in_range(&fake.kvs.pairs[i], &req->key, &req->range_end)) {
            continue;
        }

        fill_kv(&kv, &fake.kvs.pairs[i]);
        packed[range.n_kvs].len = etcd__key_value__get_packed_size(&kv);
        packed[range.n_kvs].data = malloc(packed[range.n_kvs].len);
        etcd__key_value__pack(&kv, packed[range.n_kvs++].data);

        last = is_last(i, req);

        if (range.n_kvs < fake.chunk && !last) {
            continue;
        }

        if (last && !is_mode("stream-bare")) {
            fill_header(&h, s->conn);
            h.revision = is_mode("stream-back") ? 1 : h.revision;
            range.header = &h;
        }

        chunk.len = etcd__nested_range_response__get_packed_size(&range);
        chunk.data = malloc(chunk.len);
        etcd__nested_range_response__pack(&range, chunk.data);

        queue_message(s, &res.base);

        free(chunk.data);

        while (range.n_kvs) {
            free(packed[--range.n_kvs].data);
        }

        last = last || is_mode("stream-end") || is_mode("stream-stop");
    }

    answer(s, !is_mode("stream-stop"));

    etcd__range_request__free_unpacked(req, NULL);
}


static void commit_events(void);


static void
watch_response(stream_t *s, Etcd__WatchResponse *res)
{
    Etcd__ResponseHeader  h;

    fill_header(&h, s->conn);
    res->header = &h;

    queue_message(s, &res->base);
    answer(s, 0);
}


/* the last watch of the first event's key: it gets them */

static int
wants_events(Etcd__WatchCreateRequest *req)
{
    return fake.events.n
           && in_range(&fake.events.pairs[0], &req->key, &req->range_end)
           && (fake.event_revision == 0
               || (req->start_revision
                   && req->start_revision <= fake.event_revision));
}


static void
watch_create(stream_t *s, Etcd__WatchCreateRequest *req)
{
    static char           reason[] = "rpc error: code = PermissionDenied "
                                     "desc = etcdserver: permission denied";
    const char           *bad;
    Etcd__WatchResponse   res;

    if (fake.watched == 0) {
        fake.watched = s->conn->number;
    }

    printf("%ld created conn=%d key=%.*s\n", now_ms(), s->conn->number,
           (int) req->key.len, (char *) req->key.data);

    etcd__watch_response__init(&res);
    res.created = 1;

    bad = fake.arg ? fake.arg : "bad";

    if (is_mode("watch-create-cancel")
        && memmem(req->key.data, req->key.len, bad, strlen(bad)))
    {
        res.watch_id = -1;
        res.canceled = 1;
        res.cancel_reason.data = (uint8_t *) reason;
        res.cancel_reason.len = sizeof(reason) - 1;
        watch_response(s, &res);
        return;
    }

    if (withholds() && wants_events(req) && fake.event_revision == 0) {
        commit_events();
    }

    res.watch_id = req->watch_id ? req->watch_id : s->nwatches++;

    if (is_mode("descending")) {
        res.watch_id = 1000 - res.watch_id;
    }

    watch_response(s, &res);

    if (is_mode("watch-rst") || ends_watches() || is_mode("goaway-now")) {
        s->end_time = now_ms() + FAKE_EVENT_DELAY;
    }

    if (is_mode("compacted") && fake.revision < 200) {
        fake.revision = 200;
        res.created = 0;
        res.canceled = 1;
        res.compact_revision = 150;
        watch_response(s, &res);
        return;
    }

    if (!wants_events(req) || (withholds() && !mode_number(0))) {
        return;
    }

    s->event_watch = res.watch_id;
    s->next_event = 0;

    if (is_mode("withhold-listed")) {
        s->event_time = LONG_MAX;
        return;
    }

    s->event_time = now_ms() + (is_mode("withhold") ? mode_number(0)
                                                    : FAKE_EVENT_DELAY);
}


/* takes over the request: it is answered now, or later with others */

static void
watch_request(stream_t *s, Etcd__WatchRequest *req)
{
    Etcd__WatchCreateRequest  *create;

    create = req->create_request;

    printf("%ld watch conn=%d key=%.*s revision=%ld\n", now_ms(),
           s->conn->number, (int) create->key.len, (char *) create->key.data,
           (long) create->start_revision);

    if (is_mode("lazy") && s->nheld < FAKE_MAX_HELD) {
        s->held[s->nheld++] = req;
        s->held_time = now_ms() + mode_number(300);
        return;
    }

    watch_create(s, create);
    etcd__watch_request__free_unpacked(req, NULL);
}


void
release_creates(stream_t *s)
{
    int  i;

    s->held_time = 0;

    for (i = 0; i < s->nheld; i++) {
        watch_create(s, s->held[i]->create_request);
        etcd__watch_request__free_unpacked(s->held[i], NULL);
    }

    s->nheld = 0;
}


/* makes the events part of what Range answers */

static void
commit_events(void)
{
    int      i, k;
    pair_t  *ev;

    fake.event_revision = ++fake.revision;

    for (i = 0; i < fake.events.n; i++) {
        ev = &fake.events.pairs[i];
        ev->mod_revision = fake.event_revision;

        for (k = 0; k < fake.kvs.n; k++) {
            if (strcmp(fake.kvs.pairs[k].key, ev->key) == 0) {
                break;
            }
        }

        if (ev->deleted) {
            if (k < fake.kvs.n) {
                fake.kvs.pairs[k] = fake.kvs.pairs[--fake.kvs.n];
            }

            continue;
        }

        if (k == FAKE_MAX_PAIRS) {
            continue;
        }

        fake.kvs.pairs[k] = *ev;

        if (k == fake.kvs.n) {
            fake.kvs.n++;
        }
    }
}


/* to the first watch, as fast as they are read */

static void
send_endless(stream_t *s)
{
    static int64_t        watch = -1;
    Etcd__WatchResponse   res;

    if (watch == -1) {
        watch = s->event_watch;
    }

    s->event_time = 0;

    if (s->event_watch != watch) {
        return;
    }

    s->event_time = now_ms() + 1;

    if (s->sent < s->nout) {
        return;
    }

    etcd__watch_response__init(&res);
    res.watch_id = watch;
    res.fragment = 1;
    res.n_events = mode_number(1);
    res.events = calloc(res.n_events, sizeof(ProtobufCBinaryData));

    watch_response(s, &res);

    free(res.events);
}


void
send_events(stream_t *s)
{
    static int            cut;
    int                   fragments;
    size_t                i, n;
    Etcd__Event           ev;
    Etcd__KeyValue        kv;
    Etcd__WatchResponse   res;
    ProtobufCBinaryData   packed[FAKE_MAX_PAIRS];

    if (is_mode("fragments-endless")) {
        send_endless(s);
        return;
    }

    fragments = strncmp(fake.name, "fragments", 9) == 0;
    n = (fragments || is_mode("stray")) ? 1 : fake.events.n;

    if (fake.event_revision == 0) {
        commit_events();
    }

    if (is_mode("fragments-cut") && !cut
        && s->next_event == fake.events.n - 1)
    {
        cut = 1;
        shutdown(s->conn->fd, SHUT_RDWR);
        s->event_time = 0;
        return;
    }

    etcd__watch_response__init(&res);
    res.watch_id = s->event_watch;
    res.events = packed;

    if (is_mode("stray") && s->next_event < 2) {
        res.watch_id = s->next_event == 0 ? 77 : -1;
    }

    res.n_events = n;

    for (i = 0; i < n; i++) {
        etcd__event__init(&ev);
        fill_kv(&kv, &fake.events.pairs[s->next_event++]);
        ev.kv = &kv;
        ev.type = fake.events.pairs[s->next_event - 1].deleted;

        packed[i].len = etcd__event__get_packed_size(&ev);
        packed[i].data = malloc(packed[i].len);
        etcd__event__pack(&ev, packed[i].data);
    }

    res.fragment = fragments && s->next_event < fake.events.n;
    s->event_time = 0;

    if (s->next_event < fake.events.n) {
        s->event_time = now_ms() + 1;

        if (s->next_event == fake.events.n - 1 && is_mode("fragments")) {
            s->event_time += mode_number(1000);
        }
    }

    watch_response(s, &res);

    for (i = 0; i < n; i++) {
        free(packed[i].data);
    }
}


static void
status(stream_t *s)
{
    Etcd__ResponseHeader  h;
    Etcd__StatusResponse  res;

    etcd__status_response__init(&res);
    fill_header(&h, s->conn);

    res.header = &h;
    res.version.data = (uint8_t *) fake.version;
    res.version.len = strlen(fake.version);
    res.leader = 1;

    printf("%ld status conn=%d\n", now_ms(), s->conn->number);

    queue_message(s, &res.base);
    answer(s, 1);
}


/* of a member that knows nobody */

static void
members(stream_t *s, uint8_t *p, size_t n)
{
    Etcd__ResponseHeader       h;
    Etcd__MemberListRequest   *req;
    Etcd__MemberListResponse   res;

    req = etcd__member_list_request__unpack(NULL, n, p);
    if (req == NULL) {
        return;
    }

    etcd__member_list_response__init(&res);
    fill_header(&h, s->conn);
    res.header = &h;

    printf("%ld members conn=%d linearizable=%d\n", now_ms(), s->conn->number,
           req->linearizable);

    queue_message(s, &res.base);
    answer(s, 1);

    etcd__member_list_request__free_unpacked(req, NULL);
}


/* bytes that no message of ours would make */

static int
answer_file(stream_t *s)
{
    int          i;
    long         size;
    FILE        *file;
    size_t       len, tail;
    uint8_t     *p;
    const char  *end;

    end = NULL;
    len = strlen(s->method);

    for (i = 0; i < fake.nanswers; i++) {
        end = strchr(fake.answers[i], '=');
        tail = end - fake.answers[i];

        if (tail <= len
            && memcmp(s->method + len - tail, fake.answers[i], tail) == 0)
        {
            break;
        }
    }

    if (i == fake.nanswers || end == NULL) {
        return 0;
    }

    if (s->answered) {
        return 1;
    }

    file = fopen(end + 1, "r");

    if (file == NULL) {
        perror(end + 1);
        exit(1);
    }

    fseek(file, 0, SEEK_END);
    size = ftell(file);
    rewind(file);

    s->out = realloc(s->out, s->nout + FAKE_PREFIX + size);
    p = s->out + s->nout;

    p[0] = 0;
    p[1] = size >> 24;
    p[2] = size >> 16;
    p[3] = size >> 8;
    p[4] = size;

    if (fread(p + FAKE_PREFIX, 1, size, file) != (size_t) size) {
        perror(end + 1);
        exit(1);
    }

    fclose(file);
    s->nout += FAKE_PREFIX + size;
    answer(s, strcmp(s->method, "/etcdserverpb.Watch/Watch") != 0);

    return 1;
}


void
on_message(stream_t *s, uint8_t *p, size_t n)
{
    Etcd__WatchRequest   *req;
    Etcd__WatchResponse   res;

    if (is_identify(s)) {
        etcd__watch_response__init(&res);
        res.created = 1;
        watch_response(s, &res);
        return;
    }

    if (answer_file(s)) {
        return;
    }

    if (strcmp(s->method, "/etcdserverpb.KV/Range") == 0) {
        range(s, p, n);
        return;
    }

    if (strcmp(s->method, "/etcdserverpb.KV/RangeStream") == 0) {
        range_stream(s, p, n);
        return;
    }

    if (is_status(s)) {
        status(s);
        return;
    }

    if (strcmp(s->method, "/etcdserverpb.Cluster/MemberList") == 0) {
        members(s, p, n);
        return;
    }

    if (strcmp(s->method, "/etcdserverpb.Watch/Watch") != 0) {
        return;
    }

    req = etcd__watch_request__unpack(NULL, n, p);
    if (req == NULL) {
        return;
    }

    etcd__watch_response__init(&res);

    switch (req->request_union_case) {

    case ETCD__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST:
        watch_request(s, req);
        return;

    case ETCD__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST:
        res.watch_id = req->cancel_request->watch_id;
        res.canceled = 1;
        watch_response(s, &res);
        break;

    default:
        res.watch_id = -1;
        watch_response(s, &res);
        break;
    }

    etcd__watch_request__free_unpacked(req, NULL);
}
