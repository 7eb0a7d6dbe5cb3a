
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The agent's private index of a set: finds registrations by key, and slots by
 * address.  The agent makes the index from the set when it takes over the
 * zone; the set is authoritative.
 *
 * If each key of a mirror is a registration, the index uses the entries of the
 * mirror as its keys: the mirror's entry_size must be the size of
 * ngx_etcd_key_t.  The index holds entries that the mirror has removed until
 * their members have left.  Otherwise the index has own keys.
 */


#ifndef _NGX_ETCD_INDEX_H_INCLUDED_
#define _NGX_ETCD_INDEX_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_commit.h>
#include <ngx_etcd_member_host.h>
#include <ngx_etcd_mirror.h>
#include <ngx_etcd_slot_index.h>


typedef struct {
    ngx_etcd_mirror_entry_t          entry;        /* must be the first field;
                                                      an own key, or a key that
                                                      is gone, uses only key,
                                                      queue, mod_revision: of
                                                      the last value read; 0:
                                                      read the value; and
                                                      create_revision and lease:
                                                      of its members */
    ngx_etcd_reg_t                  *regs;
    ngx_etcd_member_host_t          *hosts;        /* host names of members */
    uint32_t                         reason;       /* of an invalid key: hash of
                                                      the reason */
    unsigned                         mark:24;      /* of the last selection */
    unsigned                         unused:3;     /* NGX_ETCD_UNUSED_ */
    unsigned                         invalid:1;
    unsigned                         gone:1;
    unsigned                         held:1;       /* gone, and counted in
                                                      index->nheld */
    unsigned                         freed:1;      /* gone, and not held again
                                                      */
    unsigned                         twice:1;      /* an owner was killed while
                                                      it replaced an entry */
} ngx_etcd_key_t;


typedef struct {
    ngx_etcd_slot_index_t            slots;
    ngx_etcd_mirror_t               *mirror;       /* of the keys that are not
                                                      gone; NULL: own keys */
    ngx_etcd_hash_table_t            keys;         /* all others */
    ngx_queue_t                      present;      /* own keys not gone */
    ngx_queue_t                      gone;
    ngx_queue_t                      kept;         /* gone, but their members
                                                      stay: on_empty=keep */
    ngx_queue_t                      held;         /* the same by the guard */
    ngx_uint_t                       nheld;        /* held keys, here or in
                                                      "gone" */
    ngx_etcd_reg_t                  *statics;      /* without a key */
    ngx_uint_t                       live;         /* present with a member */
    ngx_etcd_entry_walk_t            walk;         /* of what was read */
    unsigned                         complete:1;   /* all is read */
    unsigned                         drains:1;     /* a member that was read
                                                      drains by a key */
    unsigned                         distrust:1;   /* set by the owner: the
                                                      revisions of keys that
                                                      are read are forgotten,
                                                      so that every value is
                                                      read again */
} ngx_etcd_index_t;


/* An empty index of the set.  NGX_ERROR: no memory. */
ngx_int_t ngx_etcd_index_create(ngx_etcd_index_t *index,
    ngx_etcd_member_set_t *set, ngx_etcd_mirror_t *mirror, ngx_log_t *log);

/*
 * Reads the set of a zone that the caller owns; the master passes "force" for
 * a set that no owner knows yet.  The set must not change until all is read.
 *
 *     NGX_OK        all is read,
 *     NGX_AGAIN     "until", a time of ngx_etcd_time_budget_now(), was reached
 *                   (0: no limit): call again,
 *     NGX_BUSY      the mutex was held: call again,
 *     NGX_DECLINED  the caller is not the owner any more,
 *     NGX_ERROR     no memory.
 */
ngx_int_t ngx_etcd_index_read(ngx_etcd_index_t *index, ngx_etcd_zone_t *zone,
    ngx_uint_t force, uint64_t until);
void ngx_etcd_index_destroy(ngx_etcd_index_t *index);

ngx_etcd_key_t *ngx_etcd_index_find(ngx_etcd_index_t *index, ngx_str_t *key);

/* Finds or adds a key.  NULL: no memory. */
ngx_etcd_key_t *ngx_etcd_index_key(ngx_etcd_index_t *index, ngx_str_t *key);

/* Frees an own key, or a key that is gone, with its registrations. */
void ngx_etcd_index_forget(ngx_etcd_index_t *index, ngx_etcd_key_t *key);

/* Keys that are not gone; NULL: no more. */
ngx_etcd_key_t *ngx_etcd_index_first(ngx_etcd_index_t *index);
ngx_etcd_key_t *ngx_etcd_index_next(ngx_etcd_index_t *index,
    ngx_etcd_key_t *key);

/* The key of a queue element. */
#define ngx_etcd_index_key_at(q)                                              \
    ((ngx_etcd_key_t *) ngx_queue_data(q, ngx_etcd_mirror_entry_t, queue))


/*
 * The owner moves a key that is gone to "kept" or "held": its members stay.
 * unkeep() makes all keys of "kept" be gone only, release() a held one.
 */
void ngx_etcd_index_unkeep(ngx_etcd_index_t *index);
void ngx_etcd_index_release(ngx_etcd_index_t *index, ngx_etcd_key_t *key);

/*
 * Moves a key to or from the keys that are gone.  An entry of the mirror is
 * gone when the mirror has removed it, and present when the mirror has the key
 * again: the entry then gets the registrations of the key.  An own key that is
 * present becomes the last one.  NGX_ERROR: no memory; the key has lost its
 * registrations.
 */
ngx_int_t ngx_etcd_index_gone(ngx_etcd_index_t *index, ngx_etcd_key_t *key);
void ngx_etcd_index_present(ngx_etcd_index_t *index, ngx_etcd_key_t *key);

/*
 * Own keys with another mark are gone; those with the mark became present after
 * them.  NGX_AGAIN: "until" was reached (0: no limit): call again.
 */
ngx_int_t ngx_etcd_index_sweep(ngx_etcd_index_t *index, ngx_uint_t mark,
    uint64_t until);

/* Adds a registration to a key, or to the static servers (NULL). */
ngx_etcd_reg_t *ngx_etcd_index_add(ngx_etcd_index_t *index, ngx_etcd_key_t *key,
    ngx_etcd_slot_entry_t *known, uint32_t slot);

/* A registration of a key, or of the static servers (NULL), was renewed. */
void ngx_etcd_index_renew(ngx_etcd_index_t *index, ngx_etcd_key_t *key,
    ngx_etcd_reg_t *reg, uint64_t revision);

/*
 * The registration of an address by a key, or by the static servers (NULL).
 * NULL: there is none.  See ngx_etcd_slot_index_find().
 */
ngx_etcd_reg_t *ngx_etcd_index_reg(ngx_etcd_index_t *index, ngx_etcd_key_t *key,
    u_char *sockaddr, socklen_t socklen);

/*
 * Removes the registration that *link points to: a part of the list of a key,
 * or of the static servers (NULL).  Returns the entry that its slot shows then,
 * or 0.
 */
uint32_t ngx_etcd_index_remove(ngx_etcd_index_t *index,
    ngx_etcd_key_t *key, ngx_etcd_reg_t **link);


#endif /* _NGX_ETCD_INDEX_H_INCLUDED_ */
