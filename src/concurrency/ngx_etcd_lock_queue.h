
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A lock queue: all keys below the prefix of one lock, ours and others', in the
 * order of their creation.  The first ones, as many as there are permits, hold
 * it; whoever comes may only be first when the others are gone.
 *
 * The prefix is watched when somebody waits, or has held a key for a while,
 * and then on until it is closed: what others do is seen at once.
 */


#ifndef _NGX_ETCD_LOCK_QUEUE_H_INCLUDED_
#define _NGX_ETCD_LOCK_QUEUE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_candidate.h>
#include <ngx_etcd_list.h>
#include <ngx_etcd_lock_session.h>


typedef enum {
    NGX_ETCD_MUTEX_PENDING = 0,
    NGX_ETCD_MUTEX_ACQUIRING,
    NGX_ETCD_MUTEX_WAITING,
    NGX_ETCD_MUTEX_CHECKING,
    NGX_ETCD_MUTEX_HELD,
    NGX_ETCD_MUTEX_LOST,
    NGX_ETCD_MUTEX_FAILED,
    NGX_ETCD_MUTEX_RELEASING
} ngx_etcd_lock_queue_key_state_e;


typedef struct ngx_etcd_lock_queue_key_s  ngx_etcd_lock_queue_key_t;


/* what a lock queue calls of a key of ours */

typedef struct {
    /* PENDING: its turn to be put */
    void                       (*put)(ngx_etcd_lock_queue_key_t *key);

    /* WAITING: others came or went, and the key is known to be there */
    void                       (*look)(ngx_etcd_lock_queue_key_t *key);

    /* WAITING: a linearizable read has shown it among the first ones */
    void                       (*first)(ngx_etcd_lock_queue_key_t *key);

    /* it is not there any more */
    void                       (*gone)(ngx_etcd_lock_queue_key_t *key);
} ngx_etcd_lock_queue_key_handlers_t;


struct ngx_etcd_lock_queue_key_s {
    const ngx_etcd_lock_queue_key_handlers_t *handlers;
    ngx_queue_t                               queue;
    ngx_etcd_lock_queue_key_state_e           state;
    int64_t                                   created; /* create revision; 0:
                                                      none */
    ngx_str_t                                 key; /* with the namespace */
    ngx_str_t                                 own; /* without */
};


/* a part of a lock_queue, that ngx_etcd_lock_poll.c keeps */

typedef struct {
    ngx_etcd_range_t             range;
    ngx_msec_t                   heard;        /* when the watch or a poll has
                                                  said something */
    ngx_msec_t                   ahead;        /* since when a poll knows what
                                                  the watch has not said */
    unsigned                     asking:1;
    unsigned                     missed:1;     /* "ahead" is set */
} ngx_etcd_lock_queue_poll_t;


/* numbers of keys that are kept to be used again */

#define NGX_ETCD_LOCK_QUEUE_FREE  8


typedef struct {
    /* set by the caller, the rest zeroed */

    ngx_etcd_lock_session_t     *locks;
    ngx_str_t                    prefix;       /* without the namespace, with
                                                  the slash; must stay */
    ngx_uint_t                   permits;
    ngx_pool_t                  *pool;         /* its own */

    /* a key that was given up is gone */
    void                       (*left)(void *data);

    /* keys below the prefix, ours or others', have come or gone */
    void                       (*seen)(void *data);
    void                        *data;

    /* private */

    ngx_queue_t                  queue;        /* the locks's */
    ngx_queue_t                  keys;         /* ours */
    ngx_str_t                    from;         /* with the namespace */
    ngx_str_t                    to;
    ngx_etcd_mirror_t            mirror;       /* of all keys */
    ngx_queue_t                  leaving;      /* ours, to be deleted */
    ngx_etcd_lock_queue_poll_t   poll;
    ngx_uint_t                   free[NGX_ETCD_LOCK_QUEUE_FREE];
    ngx_uint_t                   nfree;        /* numbers to be used again */
    int64_t                      lease;        /* that they belong to */
    unsigned                     acquiring:1;  /* a key is being put */
    unsigned                     watched:1;
    unsigned                     news:1;       /* keys have come or gone */
    unsigned                     foreign:1;    /* was logged */
} ngx_etcd_lock_queue_t;


ngx_int_t ngx_etcd_lock_queue_open(ngx_etcd_lock_queue_t *lock_queue);

/*
 * None of our keys is left.  NGX_AGAIN: not now, later.  Its pool is the
 * caller's to destroy after that.
 */
ngx_int_t ngx_etcd_lock_queue_close(ngx_etcd_lock_queue_t *lock_queue);

/* from now on its prefix is watched */
void ngx_etcd_lock_queue_watch(ngx_etcd_lock_queue_t *lock_queue);

/* puts the next of the keys that are to be put, if none is on its way */
void ngx_etcd_lock_queue_advance(ngx_etcd_lock_queue_t *lock_queue);

/* 1: the key, which was put at that revision, is known to be gone */
ngx_uint_t ngx_etcd_lock_queue_lost(ngx_etcd_lock_queue_t *lock_queue,
    ngx_str_t *key, int64_t created);

/* 1: the key, which was put at that revision, is among the first ones */
ngx_uint_t ngx_etcd_lock_queue_won(ngx_etcd_lock_queue_t *lock_queue,
    ngx_str_t *key, int64_t created);

/*
 * Whether there are others than that key of ours, which was put at that
 * revision: NGX_OK, nobody; NGX_BUSY, somebody; NGX_AGAIN, it is not known.
 */
ngx_int_t ngx_etcd_lock_queue_others(ngx_etcd_lock_queue_t *lock_queue,
    ngx_str_t *key, int64_t created);

/* the watch or a poll has said something */
void ngx_etcd_lock_queue_heard(ngx_etcd_lock_queue_t *lock_queue);

/* the lock queue is not polled any more */
void ngx_etcd_lock_queue_stop_poll(ngx_etcd_lock_queue_t *lock_queue);

/* what was seen may not be all: to be read again */
void ngx_etcd_lock_queue_doubt(ngx_etcd_lock_queue_t *lock_queue);


#endif /* _NGX_ETCD_LOCK_QUEUE_H_INCLUDED_ */
