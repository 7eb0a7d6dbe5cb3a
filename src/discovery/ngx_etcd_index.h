
/*
 * Copyright (C) nginx-etcd contributors
 *
 * What the agent needs to find its way in a set: registrations by key, slots
 * by address, free slots.  Private memory, made from the set on taking over;
 * the set itself is the truth.
 *
 * Where each key of a mirror is a registration, keys are the mirror's entries:
 * its entry_size is that of ngx_etcd_key_t.  Keys that are gone are held then.
 * Otherwise, keys are the index's own.
 */


#ifndef _NGX_ETCD_INDEX_H_INCLUDED_
#define _NGX_ETCD_INDEX_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_member_host.h>
#include <ngx_etcd_mirror.h>
#include <ngx_etcd_slot_index.h>


typedef struct {
    ngx_etcd_mirror_entry_t          entry;        /* first; of an own key, or
                                                      one that is gone: just
                                                      its key, queue, and
                                                      mod_revision of what was
                                                      read last, 0: read it */
    ngx_etcd_reg_t                  *regs;
    ngx_etcd_member_host_t          *hosts;        /* of its members */
    uint32_t                         mark;         /* of the last selection */
    uint32_t                         reason;       /* invalid: hash of why, and
                                                      of the revision where a
                                                      new one is reported */
    unsigned                         invalid:1;
    unsigned                         gone:1;
    unsigned                         twice:1;      /* an owner was killed while
                                                      it replaced an entry */
} ngx_etcd_key_t;


typedef struct {
    ngx_etcd_slot_index_t            slots;
    ngx_etcd_mirror_t               *mirror;       /* of the keys that are not
                                                      gone; NULL: own keys */
    ngx_etcd_map_t                   keys;         /* all others */
    ngx_queue_t                      present;      /* own keys not gone */
    ngx_queue_t                      gone;
    ngx_etcd_reg_t                  *statics;      /* without a key */
    ngx_uint_t                       live;         /* present with a member */
} ngx_etcd_index_t;


/*
 * Reads the set of a zone that the caller owns; the master passes force while
 * no owner can know of the set.  NGX_OK, NGX_AGAIN (the mutex was held),
 * NGX_DECLINED (not the owner any more), or NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_index_create(ngx_etcd_index_t *index, ngx_etcd_zone_t *zone,
    ngx_etcd_set_t *set, ngx_etcd_mirror_t *mirror, ngx_uint_t force,
    ngx_log_t *log);
void ngx_etcd_index_destroy(ngx_etcd_index_t *index);

ngx_etcd_key_t *ngx_etcd_index_find(ngx_etcd_index_t *index, ngx_str_t *key);

/* finds or makes; NULL: no memory */
ngx_etcd_key_t *ngx_etcd_index_key(ngx_etcd_index_t *index, ngx_str_t *key);

/* an own key, or one that is gone, with its registrations */
void ngx_etcd_index_forget(ngx_etcd_index_t *index, ngx_etcd_key_t *key);

/* keys that are not gone; NULL: no more */
ngx_etcd_key_t *ngx_etcd_index_first(ngx_etcd_index_t *index);
ngx_etcd_key_t *ngx_etcd_index_next(ngx_etcd_index_t *index,
    ngx_etcd_key_t *key);

/* by its queue */
#define ngx_etcd_index_key_at(q)                                              \
    ((ngx_etcd_key_t *) ngx_queue_data(q, ngx_etcd_mirror_entry_t, queue))

/* of a key its registrations, whose slots are given back, and all else */
void ngx_etcd_index_clear(ngx_etcd_index_t *index, ngx_etcd_key_t *key);

/* an own key is gone, or one of the mirror that is held */
void ngx_etcd_index_leave(ngx_etcd_index_t *index, ngx_etcd_key_t *key);

/*
 * To and from the keys that are gone.  An entry of a mirror is gone when that
 * has removed it, and present when that has it, with the registrations that
 * it had.  NGX_ERROR: no memory, and it has no registrations any more.
 */
ngx_int_t ngx_etcd_index_gone(ngx_etcd_index_t *index, ngx_etcd_key_t *key);
void ngx_etcd_index_present(ngx_etcd_index_t *index, ngx_etcd_key_t *key);

/* every value is to be read, whatever its revision */
void ngx_etcd_index_distrust(ngx_etcd_index_t *index);

/* adds a registration to a key, or to the static servers (NULL) */
ngx_etcd_reg_t *ngx_etcd_index_add(ngx_etcd_index_t *index,
    ngx_etcd_key_t *key, ngx_etcd_entry_t *entry, uint32_t slot);

/*
 * That of an address, of the key or static (no key); NULL: there is none.
 * Whoever asks for all of one key takes a time that grows with their number.
 */
ngx_etcd_reg_t *ngx_etcd_index_reg(ngx_etcd_index_t *index,
    ngx_etcd_key_t *key, u_char *sockaddr, socklen_t socklen);

/* removes one from the list it is in: what its slot shows then, or NULL */
ngx_etcd_entry_t *ngx_etcd_index_remove(ngx_etcd_index_t *index,
    ngx_etcd_key_t *key, ngx_etcd_reg_t *reg);


#endif /* _NGX_ETCD_INDEX_H_INCLUDED_ */
