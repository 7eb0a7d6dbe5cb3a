
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Changing a set by the owner of its zone: entries are prepared one by one,
 * then they become visible, many at a time.
 */


#ifndef _NGX_ETCD_COMMIT_H_INCLUDED_
#define _NGX_ETCD_COMMIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_entry.h>


typedef enum {
    NGX_ETCD_OP_PUT = 0,             /* entry into slot, instead of old */
    NGX_ETCD_OP_TOUCH,               /* old's mod_revision and serial */
    NGX_ETCD_OP_GONE,                /* old's key is gone, it stays */
    NGX_ETCD_OP_REMOVE               /* old from slot */
} ngx_etcd_op_e;


/*
 * Who makes an operation knows all entries of the slot, and says which of them
 * shows when it is done: the newest, by ngx_etcd_entry_newer().
 */

typedef struct {
    ngx_etcd_op_e                    op;
    uint32_t                         slot;
    uint32_t                         serial;
    ngx_etcd_entry_t                *entry;
    ngx_etcd_entry_t                *old;          /* or NULL */
    ngx_etcd_entry_t                *shown;        /* NULL: the slot is free */
    uint64_t                         revision;
} ngx_etcd_op_t;


typedef struct {
    ngx_array_t                     *ops;          /* of ngx_etcd_op_t */
    ngx_uint_t                       done;         /* of them */
    uint64_t                         revision;     /* the set's afterwards; 0:
                                                      as it was */
    uint64_t                         until;        /* ngx_etcd_stall_now(); 0:
                                                      all at once */
    ngx_uint_t                       force;        /* the master, while no
                                                      owner can know of it */
    ngx_uint_t                       changed;      /* it did something that a
                                                      worker would see */
} ngx_etcd_commit_t;


/*
 * Publishes the operations from "done" on, in pieces, between which others get
 * the mutex: where a piece would end within those of one revision it may be
 * twice as long.  Pieces become visible one by one, but those that end within
 * one revision with the next one.  An owner that is killed meanwhile leaves the
 * set to ngx_etcd_set_recover(), to be listed again.
 *
 *     NGX_OK        all are done,
 *     NGX_AGAIN     there are more: to be called again,
 *     NGX_BUSY      the mutex was held: likewise,
 *     NGX_DECLINED  this process is not the owner any more.
 */
ngx_int_t ngx_etcd_set_commit(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set,
    ngx_etcd_commit_t *commit);

/*
 * The owner, on taking over, or instead of going on with a commit: undoes what
 * was left half done.  An entry that was just being replaced may be there
 * beside the one that replaces it.  A set that was half changed has revision 0,
 * and is read again when a commit has one.  NGX_OK, NGX_AGAIN (the mutex was
 * held) or NGX_DECLINED.
 */
ngx_int_t ngx_etcd_set_recover(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set);

/*
 * The owner: replaces what is recorded of a key that could not be read; a
 * NULL reason: it is valid or gone.  A key that is too long is not recorded.
 * NGX_OK, NGX_AGAIN, or NGX_ERROR (the zone is full).
 */
ngx_int_t ngx_etcd_set_invalid(ngx_etcd_zone_t *zone, ngx_etcd_set_t *set,
    ngx_str_t *key, ngx_str_t *reason, uint64_t revision);


#endif /* _NGX_ETCD_COMMIT_H_INCLUDED_ */
