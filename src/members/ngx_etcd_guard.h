
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The guard of a service: an accident in etcd must not empty an upstream.
 * Deleted keys whose members stay in use are held:
 *
 *     keys that a list does not contain, if the list is empty or of another
 *     history: etcd was wiped, restored, or replaced;
 *
 *     with "etcd_guard keep=", keys without which fewer than that share of the
 *     keys would be left: of those that were registered at the same time in the
 *     last "window".
 *
 * A held key is released when it is registered again, when its member fails
 * (max_fails, checks), when an operator writes the key ".release" below the
 * prefix, or when "hold" is over.  The time does not end while etcd does not
 * answer.  Leaders have no guard.
 */


#ifndef _NGX_ETCD_GUARD_H_INCLUDED_
#define _NGX_ETCD_GUARD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_index.h>


#define NGX_ETCD_GUARD_WINDOW   60000    /* ms */
#define NGX_ETCD_GUARD_HOLD     600000   /* ms */
#define NGX_ETCD_GUARD_LONGEST  (7 * 86400 * 1000)

#define NGX_ETCD_GUARD_SILENT   5000     /* ms after the end of the time */
#define NGX_ETCD_GUARD_CALM     60000    /* ms more if etcd was silent then */

#define NGX_ETCD_GUARD_TICK     1000     /* ms */
#define NGX_ETCD_GUARD_QUIET    60       /* s between lines on sets */
#define NGX_ETCD_GUARD_PIECE    1024     /* held keys looked at in a tick */
#define NGX_ETCD_GUARD_BUCKETS  8        /* of a window */

#define NGX_ETCD_GUARD_RELEASE  ".release"


typedef struct {
    ngx_uint_t                   keep;         /* percent; 0: any number of
                                                  keys may go */
    ngx_msec_t                   window;
    ngx_msec_t                   hold;         /* 0: no key is ever held */
    ngx_uint_t                   dry;          /* keys that "keep" would hold
                                                  are logged and counted only */
} ngx_etcd_guard_conf_t;


/* why keys are held */

typedef enum {
    NGX_ETCD_GUARD_SHARE = 0,
    NGX_ETCD_GUARD_EMPTY,
    NGX_ETCD_GUARD_HISTORY
} ngx_etcd_guard_reason_e;


/* How many keys were registered in the last "window". */

typedef struct {
    uint32_t                     most[NGX_ETCD_GUARD_BUCKETS + 1];
                                               /* at most, in each part of it;
                                                  the last part first */
    uint32_t                     registered;   /* at the last guard_passed() */
    ngx_msec_t                   turned;       /* start of most[0] */
} ngx_etcd_guard_window_t;


typedef struct {
    /* set by the caller before init(), the rest zeroed */

    ngx_etcd_guard_conf_t       *conf;
    ngx_etcd_index_t            *index;
    ngx_etcd_mirror_t           *mirror;
    ngx_etcd_zone_t             *zone;
    ngx_etcd_member_set_t       *set;
    ngx_str_t                   *name;         /* of the upstream */
    ngx_str_t                   *prefix;
    ngx_log_t                   *log;
    time_t                      *told_at;      /* of all sets of a prefix with
                                                  variables: the last line above
                                                  "info"; NULL: no such set */

    /* Keys were released: the service publishes what that changes. */
    void                       (*released)(void *data);
    void                        *data;

    /*
     * set by the caller, and cleared when the list is judged: keys that a
     * complete list does not contain will be gone before guard_passed() is
     * called, and none was removed since it began
     */

    unsigned                     foreign:1;    /* the list at hand is of another
                                                  history */
    unsigned                     listed:1;     /* a list is complete */

    /* private */

    ngx_etcd_guard_window_t      window;
    ngx_etcd_guard_reason_e      reason;       /* of the keys that are gone */
    ngx_uint_t                   spared;       /* keys that a dry run would
                                                  hold */
    uint64_t                     spared_until; /* ngx_etcd_clock() */
    ngx_uint_t                   untold;       /* held or spared keys that were
                                                  not logged */
    ngx_etcd_guard_reason_e      cause;        /* of the first of them */
    ngx_event_t                  tick;
    uint64_t                     until;        /* set->held_until */
    ngx_uint_t                   holds;        /* to be added to those of the
                                                  set */
    ngx_uint_t                   dry_holds;    /* the same */
    unsigned                     unstored:1;   /* the set does not have the
                                                  three */
    unsigned                     told:1;       /* the hold was logged */
} ngx_etcd_guard_t;


void ngx_etcd_guard_init(ngx_etcd_guard_t *guard);

/* The index was made from the set. */
void ngx_etcd_guard_opened(ngx_etcd_guard_t *guard);

/* Returns 1 if the key, which is gone and has members, is to be held. */
ngx_uint_t ngx_etcd_guard_holds(ngx_etcd_guard_t *guard, ngx_etcd_key_t *key);

/* All keys that were gone are removed, kept or held. */
void ngx_etcd_guard_passed(ngx_etcd_guard_t *guard);

/*
 * Called before a commit: stores in the set what the next agent has to know.
 * Results of ngx_etcd_zone_lock_owned().
 */
ngx_int_t ngx_etcd_guard_store(ngx_etcd_guard_t *guard);

/* Returns 1 if that is the key by which an operator releases all keys. */
ngx_uint_t ngx_etcd_guard_is_release(ngx_etcd_guard_t *guard, ngx_str_t *key);
void ngx_etcd_guard_release(ngx_etcd_guard_t *guard);


#endif /* _NGX_ETCD_GUARD_H_INCLUDED_ */
