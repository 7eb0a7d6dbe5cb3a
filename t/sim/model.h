
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A model of etcd: a store with revisions and leases, and members that apply
 * what was committed sooner or later.
 *
 * A history is what was written between two restores.  The model keeps former
 * ones, for what a client may still believe.
 */


#ifndef _MODEL_H_INCLUDED_
#define _MODEL_H_INCLUDED_


#include "sim.h"
#include <ngx_etcd_grpc.h>
#include <ngx_etcd_proto.pb-c.h>


#define MODEL_MIN_TTL  2


typedef struct model_rec_s    model_rec_t;
typedef struct model_watch_s  model_watch_t;


/* why a key went */

typedef enum {
    MODEL_BY_CLIENT = 0,
    MODEL_BY_EXPIRY,
    MODEL_BY_OPERATOR
} model_reason_e;


/* one version of a key */

struct model_rec_s {
    ngx_str_t                 key;
    ngx_str_t                 value;
    int64_t                   create;
    int64_t                   mod;
    int64_t                   version;
    int64_t                   lease;
    model_rec_t              *prev;         /* of the same key */
    uint64_t                  time;
    model_reason_e            reason;       /* of a deletion */
    ngx_uint_t                deleted;
    ngx_uint_t                returned;     /* of a deleted key, by a member
                                               that lagged */
    ngx_uint_t                unaware;      /* such a one: an operator had
                                               deleted it */
};


typedef struct {
    ngx_str_t                 name;
    model_rec_t              *last;
} model_key_t;


typedef struct {
    int64_t                   id;
    uint64_t                  ttl;          /* seconds, as asked for */
    uint64_t                  granted;
    uint64_t                  expiry;
    uint64_t                  ended;        /* 0: the lease exists */
    ngx_uint_t                operator;     /* ended by one */
    sim_event_t               revoke;
} model_lease_t;


typedef struct {
    ngx_uint_t                number;
    uint64_t                  cluster_id;
    int64_t                   revision;
    int64_t                   compacted;
    uint64_t                  began;
    ngx_uint_t                forced;       /* by a member that lagged */

    model_key_t             **keys;         /* in order */
    size_t                    nkeys;
    size_t                    keys_size;

    model_rec_t             **recs;         /* in order of mod */
    size_t                    nrecs;
    size_t                    recs_size;
} model_store_t;


#define MODEL_STORES  8


typedef struct {
    ngx_uint_t                index;
    uint64_t                  id;
    int64_t                   applied;      /* revision */
    uint64_t                  term;         /* of the last applied entry */
    uint64_t                  min_ttl;      /* seconds: a member raises lower
                                               ones, by its own timeouts */
    uint64_t                  lag;          /* nothing is applied before */
    uint64_t                  down;         /* the member is away until then */
    uint64_t                  alone;        /* no quorum until then */
    uint64_t                  zombie;       /* a former leader, which does not
                                               know until then */
    uint64_t                  misled;       /* the former leader is asked for
                                               renewals until then */
    sim_event_t               apply;
    ngx_queue_t               streams;      /* model_stream_t */
} model_member_t;


typedef struct {
    model_store_t            *store;
    model_store_t            *stores[MODEL_STORES];
    ngx_uint_t                nstores;
    uint64_t                  term;
    model_member_t           *leader;       /* of raft */

    model_lease_t           **leases;
    size_t                    nleases;
    size_t                    leases_size;

    model_member_t            members[SIM_MEMBERS];
    ngx_uint_t                nmembers;

    ngx_str_t                 denied;       /* a prefix; empty: nothing */
    ngx_uint_t                list_chunk;   /* keys; 0: no RangeStream */
} model_t;


extern model_t  model;


/* a watch stream at a member; the network's streams have one */

typedef struct {
    ngx_queue_t               queue;        /* of the member */
    ngx_queue_t               watches;
    model_member_t           *member;
    int64_t                   ids;
    void                     *data;         /* of the answers */
    ngx_uint_t                open;
    sim_event_t               progress;     /* of all its watches */
    ngx_uint_t                asked;        /* progress is to be told once all
                                               watches are synced */
} model_stream_t;


/* model.c: what is in the store */

void model_init(ngx_uint_t nmembers);

model_key_t *model_find(model_store_t *store, ngx_str_t *key);

/* the version at a revision; NULL: none, or deleted */
model_rec_t *model_at(model_key_t *key, int64_t revision);
model_rec_t *model_get(model_store_t *store, ngx_str_t *key);

/* index of the first key that is not below that one */
size_t model_lower(model_store_t *store, ngx_str_t *key);

/* 1: the key is in the range of a request */
ngx_uint_t model_in(ngx_str_t *key, ngx_str_t *from, ngx_str_t *to);

/* index of the first record with a higher revision */
size_t model_after(model_store_t *store, int64_t revision);

/* when that revision was made */
uint64_t model_time(model_store_t *store, int64_t revision);

/* by somebody who is not simulated; a value of NULL deletes */
void model_write(ngx_str_t *key, ngx_str_t *value, int64_t lease);

/* a transaction of several: between these all have one revision */
void model_begin(void);
void model_put(ngx_str_t *key, ngx_str_t *value, int64_t lease);
ngx_uint_t model_delete(ngx_str_t *key, model_reason_e reason);
void model_commit(void);
int64_t model_revision(void);

void model_compact(int64_t revision);
void model_elect(void);

/* the state of that time; other: another cluster with that */
void model_restore(uint64_t time, ngx_uint_t other);

/*
 * A member that had applied all up to that time goes on alone, in a later term
 * (--force-new-cluster), and others join it.
 */
void model_force(uint64_t time);

model_lease_t *model_lease(int64_t id);
model_lease_t *model_lease_grant(int64_t id, int64_t ttl);
void model_lease_end(model_lease_t *lease, model_reason_e reason);

/* the TTL that the member counts, in seconds */
uint64_t model_lease_ttl(model_lease_t *lease, model_member_t *member);

/* the member has something to apply, or to do */
void model_member_wake(model_member_t *member);

void model_header(model_member_t *member, Etcd__ResponseHeader *header,
    int64_t revision);

/* of a member that has applied everything before it answers */
void model_header_linear(model_member_t *member,
    Etcd__ResponseHeader *header);


/* model_watch.c */

void model_watch_open(model_stream_t *stream, model_member_t *member,
    void *data);
void model_watch_close(model_stream_t *stream);
void model_watch_request(model_stream_t *stream, Etcd__WatchRequest *request);

/* the member has applied more */
void model_watch_applied(model_member_t *member);


/* model_rpc.c */

typedef struct {
    ngx_etcd_grpc_status_e    status;
    char                     *text;
    u_char                   *data;         /* packed */
    size_t                    len;
} model_answer_t;

/* one unary call at a member, done now */
void model_call(model_member_t *member, char *method, u_char *data, size_t len,
    model_answer_t *answer);

/*
 * one chunk of RangeStream; 1: the request is now that for the next one.  The
 * revision is 0 at first.
 */
ngx_uint_t model_call_list(model_member_t *member, u_char **data, size_t *len,
    int64_t *revision, model_answer_t *answer);

/* one message of a LeaseKeepAlive stream; 0: there is no answer */
ngx_uint_t model_keep_alive(model_member_t *member, u_char *data, size_t len,
    model_answer_t *answer);

/* for these and model_txn.c: */

void model_answer(model_answer_t *answer, ProtobufCMessage *message);
void model_refuse(model_answer_t *answer, ngx_etcd_grpc_status_e status,
    char *text);
ngx_str_t model_str(ProtobufCBinaryData *data);
ngx_uint_t model_is_denied(ngx_str_t *key);
Etcd__RangeResponse *model_range(Etcd__RangeRequest *request,
    int64_t revision);
void model_call_txn(model_member_t *member, Etcd__TxnRequest *request,
    model_answer_t *answer);

/* 1: the call needs no quorum */
ngx_uint_t model_is_local(char *method, u_char *data, size_t len);


/* sim_faults.c: the request is on its way */
void sim_faults_read(Etcd__RangeRequest *request);


/* sim_grpc.c: a message of the watch stream, packed, to its client */
void sim_net_deliver(void *data, ProtobufCMessage *message);


#endif /* _MODEL_H_INCLUDED_ */
