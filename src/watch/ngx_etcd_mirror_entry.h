
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The entries of a mirror: their memory and their order.  Consumers use
 * ngx_etcd_mirror.h.
 */


#ifndef _NGX_ETCD_MIRROR_ENTRY_H_INCLUDED_
#define _NGX_ETCD_MIRROR_ENTRY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_hash_table.h>
#include <ngx_etcd_proto.pb-c.h>


typedef enum {
    NGX_ETCD_MIRROR_UNORDERED = 0,
    NGX_ETCD_MIRROR_BY_CREATE,      /* create_revision, lowest first */
    NGX_ETCD_MIRROR_BY_MOD          /* mod_revision, lowest first */
} ngx_etcd_mirror_order_e;


/*
 * One key.  Stays where it is until removed() has returned, or longer if the
 * consumer holds it.
 */

typedef struct {
    ngx_str_t                    key;          /* first: the map's; without the
                                                  namespace */
    ngx_queue_t                  queue;        /* private */

    int64_t                      create_revision;  /* 0: not known */
    int64_t                      mod_revision;
    int64_t                      lease;

    /*
     * Up to "keep" bytes are kept.  Where nothing is kept, this is the whole
     * value within changed(), and empty at any other time.
     */
    ngx_str_t                    value;

    /* private */

    uint32_t                     generation;   /* of the list that named it */
    unsigned                     audited:31;   /* by the audit with that mark */
    unsigned                     held:1;
} ngx_etcd_mirror_entry_t;


/* 0: an entry that removed() was called with for a key that is not known */
#define ngx_etcd_mirror_known(entry)  ((entry)->queue.next != NULL)


typedef struct {
    /* set by the owner, the rest zeroed */

    ngx_etcd_mirror_order_e      order;
    size_t                       keep;         /* bytes of a value */
    size_t                       entry_size;   /* of an entry and, behind it,
                                                  of what the consumer needs
                                                  for it, zeroed at first; 0:
                                                  nothing */

    /* to be read */

    ngx_etcd_hash_table_t        map;          /* by key */
    ngx_uint_t                   n;            /* entries: kept by the owner */
    size_t                       size;         /* bytes that they take */

    /* private */

    ngx_queue_t                  queue;
    ngx_rbtree_t                 tree;         /* in the order */
    ngx_rbtree_node_t            sentinel;
} ngx_etcd_mirror_entries_t;


void ngx_etcd_mirror_entry_init(ngx_etcd_mirror_entries_t *entries,
    ngx_log_t *log);

/* Frees all entries that are not held. */
void ngx_etcd_mirror_entry_done(ngx_etcd_mirror_entries_t *entries);

/* NULL: there is none */
ngx_etcd_mirror_entry_t *ngx_etcd_mirror_entry_find(
    ngx_etcd_mirror_entries_t *entries, ngx_str_t *key);

/* without a place in the order; NULL: no memory */
ngx_etcd_mirror_entry_t *ngx_etcd_mirror_entry_create(
    ngx_etcd_mirror_entries_t *entries, ngx_str_t *key);

/* no part of the mirror any more; must not have a place in the order */
void ngx_etcd_mirror_entry_detach(ngx_etcd_mirror_entries_t *entries,
    ngx_etcd_mirror_entry_t *entry);

/* the same, and frees it, unless it is held */
void ngx_etcd_mirror_entry_free(ngx_etcd_mirror_entries_t *entries,
    ngx_etcd_mirror_entry_t *entry);

/* copies what is kept of the bytes; NGX_ERROR: no memory */
ngx_int_t ngx_etcd_mirror_entry_value(ngx_etcd_mirror_entries_t *entries,
    ProtobufCBinaryData *bytes, ngx_str_t *value);

/* the entry keeps such a copy, or nothing if its data is NULL */
void ngx_etcd_mirror_entry_keep(ngx_etcd_mirror_entries_t *entries,
    ngx_etcd_mirror_entry_t *entry, ngx_str_t *value);

/* Puts the entry into the order, if there is one, or takes it out. */
void ngx_etcd_mirror_entry_place(ngx_etcd_mirror_entries_t *entries,
    ngx_etcd_mirror_entry_t *entry);
void ngx_etcd_mirror_entry_unplace(ngx_etcd_mirror_entries_t *entries,
    ngx_etcd_mirror_entry_t *entry);

/* all entries, in the order if there is one; NULL: no more */
ngx_etcd_mirror_entry_t *ngx_etcd_mirror_entry_first(
    ngx_etcd_mirror_entries_t *entries);
ngx_etcd_mirror_entry_t *ngx_etcd_mirror_entry_next(
    ngx_etcd_mirror_entries_t *entries, ngx_etcd_mirror_entry_t *entry);


#endif /* _NGX_ETCD_MIRROR_ENTRY_H_INCLUDED_ */
