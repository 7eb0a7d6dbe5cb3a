
/*
 * Copyright (C) nginx-etcd contributors
 *
 * An election slot: the lease and key that the instance holds in etcd for an
 * election or a registration, and the leader as seen.  The owner of the zone
 * writes the election slot, every worker reads it without a lock.
 */


#ifndef _NGX_ETCD_ELECTION_SLOT_H_INCLUDED_
#define _NGX_ETCD_ELECTION_SLOT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_object.h>


#define NGX_ETCD_ELECTION_SLOT_MAX_KEY  1024
#define NGX_ETCD_ELECTION_SLOT_MAX_VALUE  4096


typedef enum {
    NGX_ETCD_ELECTION_SLOT_ELECTION = 0,
    NGX_ETCD_ELECTION_SLOT_REGISTRATION
} ngx_etcd_election_slot_kind_e;


/*
 * The state that an owner passes to the next one; all zero: nothing is held.
 */

typedef struct {
    int64_t                          lease;
    uint64_t                         ttl;          /* ms */
    uint64_t                         deadline;     /* ngx_etcd_clock() */
    int64_t                          created;      /* create_revision of its
                                                      key */
} ngx_etcd_election_slot_hold_t;


/* the leader as seen at a revision of etcd */

typedef struct {
    int64_t                          revision;
    int64_t                          created;      /* 0: there is none */
    uint64_t                         expires;      /* expiry of the lease
                                                      unless renewed,
                                                      ngx_etcd_clock(); 0:
                                                      unknown */
    uint32_t                         key_len;
    uint32_t                         value_len;
    u_char                           key[NGX_ETCD_ELECTION_SLOT_MAX_KEY];
    u_char                           value[NGX_ETCD_ELECTION_SLOT_MAX_VALUE];
} ngx_etcd_election_slot_view_t;


typedef struct {
    ngx_etcd_object_t                object;       /* variant: the kind; name:
                                                      the key, or prefix */
    ngx_etcd_election_slot_hold_t    hold;         /* protected by the mutex */

    ngx_etcd_atomic64_t              until;        /* the instance leads until
                                                      then, ngx_etcd_clock();
                                                      0: it does not lead */
    ngx_etcd_atomic64_t              verified;     /* ngx_etcd_zone_prove(): the
                                                      view was what etcd had;
                                                      0: never */
    int64_t                          term;         /* create_revision of the
                                                      last leader's key */
    ngx_etcd_atomic64_t              leaders;      /* number of leaders seen */
    ngx_etcd_atomic64_t              asked;        /* last request for
                                                      view.expires,
                                                      ngx_etcd_clock() */
    ngx_etcd_seqlock_t               lock;         /* of view */
    ngx_etcd_election_slot_view_t    view;
} ngx_etcd_election_slot_t;


extern const ngx_etcd_object_type_t  ngx_etcd_election_slot_type;


/*
 * Called by the master: finds or creates the election slot, and copies into it
 * the one of the same kind and key in the zone of the previous configuration,
 * which had another size; "old" is that zone, or NULL.  NULL: the zone is too
 * small, or a mutex is held.
 */
ngx_etcd_election_slot_t *ngx_etcd_election_slot_declare(ngx_etcd_zone_t *zone,
    ngx_etcd_election_slot_kind_e kind, ngx_str_t *key, ngx_etcd_zone_t *old);

typedef void (*ngx_etcd_election_slot_hold_pt)(void *data,
    ngx_etcd_election_slot_hold_t *hold);

/*
 * Called by the owner: releases the election slots that its configuration has
 * not declared; calls the handler for each election slot with something held.
 * NGX_OK or NGX_AGAIN.
 */
ngx_int_t ngx_etcd_election_slot_vacate_old(ngx_etcd_zone_t *zone,
    ngx_etcd_election_slot_hold_pt handler, void *data);


/* Called by the owner.  Results of ngx_etcd_zone_lock_owned(). */

ngx_int_t ngx_etcd_election_slot_store(ngx_etcd_zone_t *zone,
    ngx_etcd_election_slot_t *slot, ngx_etcd_election_slot_hold_t *hold);
ngx_int_t ngx_etcd_election_slot_show(ngx_etcd_zone_t *zone,
    ngx_etcd_election_slot_t *slot, ngx_etcd_election_slot_view_t *view);


/*
 * Called by the owner: sets "until" if its value is still *known, the value
 * that the owner wrote last or read when it became the owner.  NGX_OK:
 * "until" is set.  NGX_DECLINED: another process has written "until"; *known
 * is set to that value.  The caller may try again only after it has found
 * that it still owns the zone.
 *
 * A former owner's *known differs from what the owner has written, unless it is
 * 0: then the owner asks under the mutex.  NGX_BUSY: the mutex was held.
 */
ngx_int_t ngx_etcd_election_slot_extend(ngx_etcd_zone_t *zone,
    ngx_etcd_election_slot_t *slot, uint64_t *known, uint64_t until);


/*
 * Returns "until", or 0 if the election slot no longer has that id.  Any worker
 * may call this function.
 */

uint64_t ngx_etcd_election_slot_until(ngx_etcd_election_slot_t *slot,
    ngx_uint_t id);

/* requests the owner to find out when the leader's lease expires */

#define ngx_etcd_election_slot_ask(slot, now)                                 \
    __atomic_store_n(&(slot)->asked, now, __ATOMIC_RELAXED)

/* the create_revision of the instance's own key; 0: there is none */

#define ngx_etcd_election_slot_created(slot)                                  \
    __atomic_load_n(&(slot)->hold.created, __ATOMIC_ACQUIRE)

/* Copies the view; NGX_DECLINED: the view is unavailable now. */
ngx_int_t ngx_etcd_election_slot_view(ngx_etcd_election_slot_t *slot,
    ngx_uint_t id, ngx_etcd_election_slot_view_t *view);


#endif /* _NGX_ETCD_ELECTION_SLOT_H_INCLUDED_ */
