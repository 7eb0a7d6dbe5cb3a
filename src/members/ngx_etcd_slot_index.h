
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The agent's private index of the slots of a set: finds the slot of an
 * address, the registrations of an address, and free slots.  Each registration
 * is on one list of its owner: the list of a key, or the list of the static
 * servers.
 */


#ifndef _NGX_ETCD_SLOT_INDEX_H_INCLUDED_
#define _NGX_ETCD_SLOT_INDEX_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_hash_table.h>
#include <ngx_etcd_member_set.h>
#include <ngx_etcd_treap.h>


typedef struct ngx_etcd_reg_s           ngx_etcd_reg_t;
typedef struct ngx_etcd_slot_address_s  ngx_etcd_slot_address_t;


/*
 * One member that a key registers, as it is when the batch is published.  What
 * it says is known by its hash: the entry is the owner's, and may be freed when
 * another process owns the zone.
 */

struct ngx_etcd_reg_s {
    ngx_etcd_node_t                  node;      /* in address->newest; first */
    uint64_t                         revision;
    ngx_etcd_reg_t                  *next;
    ngx_etcd_slot_address_t         *address;
    void                            *key;       /* the ngx_etcd_key_t, which
                                                   begins with its name; NULL: a
                                                   static server */
    uint64_t                         hash;      /* ngx_etcd_slot_index_hash()
                                                   */
    uint32_t                         entry;     /* ngx_etcd_zone_number() */
    unsigned                         slot:29;
    unsigned                         seen:1;    /* used by the owner */
    unsigned                         gone:2;    /* NGX_ETCD_ENTRY_ */
};


/* The index knows that much of an entry. */

typedef struct {
    uint32_t                         entry;     /* ngx_etcd_zone_number() */
    uint64_t                         revision;
    uint64_t                         hash;
    u_char                          *sockaddr;
    socklen_t                        socklen;
} ngx_etcd_slot_entry_t;


/* A part of an ngx_etcd_index_t, which makes and frees it. */

typedef struct {
    ngx_etcd_member_set_t           *set;
    ngx_log_t                       *log;
    ngx_etcd_hash_table_t            addresses;
    ngx_uint_t                       nregs;     /* of all addresses */
    ngx_etcd_reg_t                 **selected;  /* list whose registrations
                                                   the addresses point to */

    uint32_t                        *next_free;  /* by slot */
    ngx_uint_t                       nslots;
    uint32_t                         free_head;
    uint32_t                         free_tail;
} ngx_etcd_slot_index_t;


/*
 * Makes room for the slots of the set.  The owner of a new index then reports
 * each of them by ngx_etcd_slot_index_free() or ngx_etcd_slot_index_add().
 * NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_slot_index_resize(ngx_etcd_slot_index_t *slots);

/* Adds a slot without entries to the free slots. */
void ngx_etcd_slot_index_free(ngx_etcd_slot_index_t *slots, uint32_t slot);

/*
 * The slot of an address, or a free slot: adds slots to the set if there is
 * none.  NGX_ERROR: the zone is full.  NGX_AGAIN: no memory, or
 * ngx_etcd_member_set_grow() returned NGX_AGAIN, which "force" is passed to.
 */
ngx_int_t ngx_etcd_slot_index_slot(ngx_etcd_slot_index_t *slots,
    ngx_etcd_zone_t *zone, ngx_uint_t force, u_char *sockaddr,
    socklen_t socklen, uint32_t *slot);

/*
 * Of what a registration says.  The hash has no secret key.  The writer of a
 * key can make two values of it with one hash; nginx then keeps the first, as
 * if the second had not been written.  A change of a single byte always changes
 * the hash, so no value can hide that a key drains its member.
 */
uint64_t ngx_etcd_slot_index_hash(u_char *payload, size_t len,
    uint64_t create_revision);

/* Reads an entry; the caller holds the mutex. */
void ngx_etcd_slot_index_entry(ngx_etcd_slot_entry_t *known,
    ngx_etcd_zone_t *zone, ngx_etcd_entry_t *entry);

/* Adds a registration of a key to its list.  NULL: no memory. */
ngx_etcd_reg_t *ngx_etcd_slot_index_add(ngx_etcd_slot_index_t *slots, void *key,
    ngx_etcd_reg_t **list, ngx_etcd_slot_entry_t *known, uint32_t slot);

/*
 * The registration of an address on a list; NULL: there is none.  The first
 * of several calls for one list takes O(n) steps, the others O(1).
 */
ngx_etcd_reg_t *ngx_etcd_slot_index_find(ngx_etcd_slot_index_t *slots,
    ngx_etcd_reg_t **list, u_char *sockaddr, socklen_t socklen);

/*
 * Calls the handler with each registration of an address, as "reg->node", which
 * must stay there.
 */
void ngx_etcd_slot_index_each(ngx_etcd_slot_index_t *slots, u_char *sockaddr,
    socklen_t socklen, void (*handler)(ngx_etcd_node_t *node, void *data),
    void *data);

/* Gives a registration another revision. */
void ngx_etcd_slot_index_renew(ngx_etcd_slot_index_t *slots,
    ngx_etcd_reg_t *reg, uint64_t revision);

/*
 * The registration whose entry the slot of an address shows: that with the
 * highest revision, and of one transaction that whose key is the last by name.
 * So each nginx shows the same one, whether a watch told of the keys or a list.
 */
ngx_etcd_reg_t *ngx_etcd_slot_index_newest(ngx_etcd_slot_address_t *address);

/*
 * Frees the registration that *link, a part of a list, points to: it points to
 * the next one then.  Returns the entry that its slot shows then; 0: the slot
 * is free.
 */
uint32_t ngx_etcd_slot_index_remove(ngx_etcd_slot_index_t *slots,
    ngx_etcd_reg_t **link);

/*
 * Prepares to find registrations of a list; NULL: of none, as before a list is
 * moved.
 */
void ngx_etcd_slot_index_select(ngx_etcd_slot_index_t *slots,
    ngx_etcd_reg_t **list);


#endif /* _NGX_ETCD_SLOT_INDEX_H_INCLUDED_ */
