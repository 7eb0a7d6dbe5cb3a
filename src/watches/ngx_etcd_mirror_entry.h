
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The entries of a mirror: their memory and their order.  Other folders use
 * ngx_etcd_mirror.h.
 */


#ifndef _NGX_ETCD_MIRROR_ENTRY_H_INCLUDED_
#define _NGX_ETCD_MIRROR_ENTRY_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_hash_table.h>
#include <ngx_etcd_proto.pb-c.h>


/*
 * One key.  The address is stable until removed() has returned, or longer if
 * the consumer holds the entry.
 */

typedef struct {
    ngx_str_t                    key;          /* without the namespace; must be
                                                  the first field
                                                  (ngx_etcd_hash_table.h) */
    ngx_queue_t                  queue;        /* private */

    int64_t                      create_revision;  /* 0: not known */
    int64_t                      mod_revision;
    int64_t                      lease;

    /*
     * The first "keep" bytes.  If "keep" is 0, the whole value during
     * changed(), and empty at other times.
     */
    ngx_str_t                    value;

    unsigned                     apart:1;      /* the consumer's: counted apart
                                                  */
    /* private */

    unsigned                     held:1;
    uint32_t                     generation;   /* of the last list with the
                                                  key */
} ngx_etcd_mirror_entry_t;


/* 0: removed() was called for a key without an entry */
#define ngx_etcd_mirror_known(entry)  ((entry)->queue.next != NULL)


typedef struct {
    /* set by the owner, the rest zeroed */

    ngx_uint_t                   ordered;      /* by create_revision, lowest
                                                  first */
    size_t                       keep;         /* bytes of a value */
    size_t                       entry_size;   /* of an entry and the consumer's
                                                  data behind it, zeroed at
                                                  first; 0: no such data */

    /* read-only for the owner */

    ngx_etcd_hash_table_t        table;        /* by key */
    ngx_uint_t                   n;            /* number of entries, counted by
                                                  the owner */
    size_t                       size;         /* bytes of memory of all
                                                  entries */
    uint64_t                    *sum;          /* of all entries, for audits:
                                                  that of these alone, or of
                                                  all parts of a fan-out */

    /* private */

    ngx_queue_t                  queue;
    ngx_rbtree_t                 tree;         /* in the order */
    ngx_rbtree_node_t            sentinel;
    uint64_t                     own;          /* sum of these entries */
} ngx_etcd_mirror_entries_t;


/*
 * Returns what a key adds to the sum of all.  Keys that differ, or have other
 * revisions, have another sum, but for one case in 2^32; their order does not
 * matter.
 */
uint64_t ngx_etcd_mirror_entry_sum(ngx_str_t *key, int64_t mod_revision);


/* No entries yet; the log is also that of later allocations. */
void ngx_etcd_mirror_entry_init(ngx_etcd_mirror_entries_t *entries,
    ngx_log_t *log);

/* Frees all entries that are not held. */
void ngx_etcd_mirror_entry_done(ngx_etcd_mirror_entries_t *entries);

/*
 * The new entry has no place in the order yet.  Returns NULL if there is no
 * memory.
 */
ngx_etcd_mirror_entry_t *ngx_etcd_mirror_entry_create(
    ngx_etcd_mirror_entries_t *entries, ngx_str_t *key);

/* Takes the entry out of the hash table; it must have no place in the order. */
void ngx_etcd_mirror_entry_detach(ngx_etcd_mirror_entries_t *entries,
    ngx_etcd_mirror_entry_t *entry);

/* Detaches and frees the entry; does nothing if the entry is held. */
void ngx_etcd_mirror_entry_free(ngx_etcd_mirror_entries_t *entries,
    ngx_etcd_mirror_entry_t *entry);

/* Copies the first "keep" bytes; NGX_ERROR: no memory. */
ngx_int_t ngx_etcd_mirror_entry_value(ngx_etcd_mirror_entries_t *entries,
    ProtobufCBinaryData *bytes, ngx_str_t *value);

/*
 * Replaces the value of the entry by such a copy, which the entry takes over;
 * data may be NULL.
 */
void ngx_etcd_mirror_entry_keep(ngx_etcd_mirror_entries_t *entries,
    ngx_etcd_mirror_entry_t *entry, ngx_str_t *value);

/*
 * Adds the entry to the sum, and to the order if there is one, or removes it.
 * In between its revisions change.
 */
void ngx_etcd_mirror_entry_place(ngx_etcd_mirror_entries_t *entries,
    ngx_etcd_mirror_entry_t *entry);
void ngx_etcd_mirror_entry_unplace(ngx_etcd_mirror_entries_t *entries,
    ngx_etcd_mirror_entry_t *entry);

/* all entries, in the order if there is one; NULL: end */
ngx_etcd_mirror_entry_t *ngx_etcd_mirror_entry_first(
    ngx_etcd_mirror_entries_t *entries);
ngx_etcd_mirror_entry_t *ngx_etcd_mirror_entry_next(
    ngx_etcd_mirror_entries_t *entries, ngx_etcd_mirror_entry_t *entry);


/*
 * The keys of the candidates of an election, below its prefix.
 */

#define NGX_ETCD_CANDIDATE_MAX_VALUE  4096     /* bytes of a value */


/*
 * Returns why a key below the prefix is not a candidate, or NULL if it is one.
 * The entry must keep one byte more than NGX_ETCD_CANDIDATE_MAX_VALUE.  The
 * prefix is its length in the key.
 */
const char *ngx_etcd_candidate_fault(ngx_etcd_mirror_entry_t *entry,
    size_t prefix);

/*
 * Returns 1 if the name of a key below the prefix is the key's lease in decimal
 * digits, as the npm package etcd3 writes it.
 */
ngx_uint_t ngx_etcd_candidate_decimal(ngx_str_t *key, int64_t lease,
    size_t prefix);


#endif /* _NGX_ETCD_MIRROR_ENTRY_H_INCLUDED_ */
