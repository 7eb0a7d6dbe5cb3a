
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_alloc.h>
#include <ngx_etcd_hash_table.h>
#include <ngx_etcd_member.h>
#include <ngx_etcd_slot_index.h>
#include <ngx_etcd_str.h>


/* An address in use; all its registrations have its slot. */

struct ngx_etcd_slot_address_s {
    ngx_str_t            bytes;        /* first */
    ngx_etcd_node_t     *newest;       /* treap of all registrations, the newest
                                          one is the rightmost: thousands of
                                          keys may register one address */
    ngx_etcd_reg_t      *selected;     /* on slots->selected; NULL: none */
};


ngx_int_t
ngx_etcd_slot_index_resize(ngx_etcd_slot_index_t *slots)
{
    uint32_t    *next;
    ngx_uint_t   n;

    n = slots->set->nslots;

    next = ngx_etcd_alloc_grow(slots->next_free,
                               slots->nslots * sizeof(uint32_t),
                               ngx_max(n, 1) * sizeof(uint32_t), slots->log);
    if (next == NULL) {
        return NGX_ERROR;
    }

    slots->next_free = next;
    slots->nslots = n;

    return NGX_OK;
}


/* First in, first out: a slot is reused as late as possible. */

void
ngx_etcd_slot_index_free(ngx_etcd_slot_index_t *slots, uint32_t slot)
{
    slots->next_free[slot] = NGX_ETCD_MEMBER_SET_NO_SLOT;

    if (slots->free_head == NGX_ETCD_MEMBER_SET_NO_SLOT) {
        slots->free_head = slot;

    } else {
        slots->next_free[slots->free_tail] = slot;
    }

    slots->free_tail = slot;
}


/* The bytes of an address without the padding of an IPv4 address. */

static ngx_str_t
ngx_etcd_slot_index_bytes(u_char *sockaddr, socklen_t socklen)
{
    ngx_str_t    bytes;
    sa_family_t  family;

    /* the address in an entry is not aligned */

    ngx_memcpy(&family, sockaddr + offsetof(struct sockaddr, sa_family),
               sizeof(sa_family_t));

    bytes.data = sockaddr;
    bytes.len = (family == AF_INET) ? offsetof(struct sockaddr_in, sin_zero)
                                    : socklen;

    return bytes;
}


static ngx_int_t
ngx_etcd_slot_index_compare(ngx_etcd_node_t *one, ngx_etcd_node_t *two)
{
    ngx_int_t        rc;
    ngx_str_t       *a, *b;
    ngx_etcd_reg_t  *r, *s;

    r = (ngx_etcd_reg_t *) one;
    s = (ngx_etcd_reg_t *) two;

    if (r->revision != s->revision) {
        return (r->revision < s->revision) ? -1 : 1;
    }

    a = r->key;
    b = s->key;

    if (a != b) {
        if (a == NULL || b == NULL) {
            return (a == NULL) ? -1 : 1;
        }

        rc = ngx_memn2cmp(a->data, b->data, a->len, b->len);
        if (rc != 0) {
            return rc;
        }
    }

    return (one < two) ? -1 : (one > two);
}


/* A treap for each address takes as much memory as its nodes: the root does. */

static ngx_etcd_treap_t
ngx_etcd_slot_index_treap(ngx_etcd_slot_address_t *address)
{
    ngx_etcd_treap_t  treap;

    treap.root = address->newest;
    treap.compare = ngx_etcd_slot_index_compare;
    treap.update = NULL;

    return treap;
}


static void
ngx_etcd_slot_index_insert(ngx_etcd_slot_address_t *address,
    ngx_etcd_reg_t *reg)
{
    ngx_etcd_treap_t  treap;

    treap = ngx_etcd_slot_index_treap(address);

    ngx_etcd_treap_insert(&treap, &reg->node);

    address->newest = treap.root;
}


static void
ngx_etcd_slot_index_take(ngx_etcd_slot_address_t *address, ngx_etcd_reg_t *reg)
{
    ngx_etcd_treap_t  treap;

    treap = ngx_etcd_slot_index_treap(address);

    ngx_etcd_treap_remove(&treap, &reg->node);

    address->newest = treap.root;
}


ngx_etcd_reg_t *
ngx_etcd_slot_index_newest(ngx_etcd_slot_address_t *address)
{
    ngx_etcd_node_t  *node;

    node = address->newest;

    while (node->right != NULL) {
        node = node->right;
    }

    return (ngx_etcd_reg_t *) node;
}


static ngx_int_t
ngx_etcd_slot_index_grown(ngx_etcd_slot_index_t *slots)
{
    ngx_uint_t  n;

    n = slots->nslots;

    if (ngx_etcd_slot_index_resize(slots) != NGX_OK) {
        return NGX_ERROR;
    }

    for ( /* void */ ; n < slots->nslots; n++) {
        ngx_etcd_slot_index_free(slots, n);
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_slot_index_slot(ngx_etcd_slot_index_t *slots, ngx_etcd_zone_t *zone,
    ngx_uint_t force, u_char *sockaddr, socklen_t socklen, uint32_t *slot)
{
    ngx_str_t                 bytes;
    ngx_int_t                 rc;
    ngx_etcd_slot_address_t  *address;

    bytes = ngx_etcd_slot_index_bytes(sockaddr, socklen);
    address = ngx_etcd_hash_table_find(&slots->addresses, &bytes);

    if (address != NULL) {
        *slot = ngx_etcd_slot_index_newest(address)->slot;
        return NGX_OK;
    }

    if (slots->free_head == NGX_ETCD_MEMBER_SET_NO_SLOT) {
        rc = ngx_etcd_member_set_grow(zone, slots->set, force);

        if (rc != NGX_OK) {
            return rc;
        }

        if (ngx_etcd_slot_index_grown(slots) != NGX_OK) {
            return NGX_AGAIN;
        }
    }

    *slot = slots->free_head;

    return NGX_OK;
}


/*
 * FNV-1a of 64 bits.  The same bytes with another create_revision are another
 * registration.
 */

uint64_t
ngx_etcd_slot_index_hash(u_char *payload, size_t len, uint64_t create_revision)
{
    uint64_t  hash;

    hash = 0xcbf29ce484222325;

    while (len-- != 0) {
        hash = (hash ^ *payload++) * 0x100000001b3;
    }

    return hash + create_revision;
}


void
ngx_etcd_slot_index_entry(ngx_etcd_slot_entry_t *known, ngx_etcd_zone_t *zone,
    ngx_etcd_entry_t *entry)
{
    ngx_etcd_member_pack_t  record;

    ngx_etcd_member_pack_read(&record, ngx_etcd_entry_payload(entry));

    known->entry = ngx_etcd_zone_number(zone, entry);
    known->revision = entry->mod_revision;
    known->hash = ngx_etcd_slot_index_hash(ngx_etcd_entry_payload(entry),
                                           entry->len, entry->create_revision);
    known->sockaddr = record.sockaddr;
    known->socklen = record.socklen;
}


/* Adds the registration to its address, which may be new. */

static ngx_int_t
ngx_etcd_slot_index_hold(ngx_etcd_slot_index_t *slots, ngx_etcd_reg_t *reg,
    ngx_str_t *bytes)
{
    ngx_etcd_slot_address_t  *address;

    address = ngx_etcd_hash_table_find(&slots->addresses, bytes);

    if (address == NULL) {
        address = ngx_etcd_hash_table_add(&slots->addresses, bytes,
                                          sizeof(ngx_etcd_slot_address_t));
        if (address == NULL) {
            return NGX_ERROR;
        }

        /* a slot that is read from the set is not one of the free slots */

        if (reg->slot == slots->free_head) {
            slots->free_head = slots->next_free[reg->slot];
        }
    }

    ngx_etcd_slot_index_insert(address, reg);
    reg->address = address;

    slots->nregs++;

    return NGX_OK;
}


ngx_etcd_reg_t *
ngx_etcd_slot_index_add(ngx_etcd_slot_index_t *slots, void *key,
    ngx_etcd_reg_t **list, ngx_etcd_slot_entry_t *known, uint32_t slot)
{
    ngx_str_t        bytes;
    ngx_etcd_reg_t  *reg;

    reg = ngx_calloc(sizeof(ngx_etcd_reg_t), slots->log);
    if (reg == NULL) {
        return NULL;
    }

    reg->entry = known->entry;
    reg->hash = known->hash;
    reg->slot = slot;
    reg->key = key;
    reg->revision = known->revision;

    bytes = ngx_etcd_slot_index_bytes(known->sockaddr, known->socklen);

    if (ngx_etcd_slot_index_hold(slots, reg, &bytes) != NGX_OK) {
        ngx_free(reg);
        return NULL;
    }

    reg->next = *list;
    *list = reg;

    if (slots->selected == list) {
        reg->address->selected = reg;
    }

    return reg;
}


/*
 * Selects a list that is not empty, or none (NULL).  A list that becomes empty
 * is not selected any more: its owner may free it.
 */

void
ngx_etcd_slot_index_select(ngx_etcd_slot_index_t *slots, ngx_etcd_reg_t **list)
{
    ngx_etcd_reg_t  *reg;

    if (slots->selected != NULL) {
        for (reg = *slots->selected; reg != NULL; reg = reg->next) {
            reg->address->selected = NULL;
        }
    }

    slots->selected = list;

    if (list != NULL) {
        for (reg = *list; reg != NULL; reg = reg->next) {
            reg->address->selected = reg;
        }
    }
}


ngx_etcd_reg_t *
ngx_etcd_slot_index_find(ngx_etcd_slot_index_t *slots, ngx_etcd_reg_t **list,
    u_char *sockaddr, socklen_t socklen)
{
    ngx_str_t                 bytes;
    ngx_etcd_reg_t           *reg;
    ngx_etcd_slot_address_t  *address;

    reg = *list;

    if (reg == NULL) {
        return NULL;
    }

    bytes = ngx_etcd_slot_index_bytes(sockaddr, socklen);

    /* most keys register one address */

    if (reg->next == NULL) {
        return ngx_etcd_str_equal(&reg->address->bytes, &bytes) ? reg : NULL;
    }

    if (slots->selected != list) {
        ngx_etcd_slot_index_select(slots, list);
    }

    address = ngx_etcd_hash_table_find(&slots->addresses, &bytes);

    return (address != NULL) ? address->selected : NULL;
}


void
ngx_etcd_slot_index_each(ngx_etcd_slot_index_t *slots, u_char *sockaddr,
    socklen_t socklen, void (*handler)(ngx_etcd_node_t *node, void *data),
    void *data)
{
    ngx_str_t                 bytes;
    ngx_etcd_treap_t          treap;
    ngx_etcd_slot_address_t  *address;

    bytes = ngx_etcd_slot_index_bytes(sockaddr, socklen);
    address = ngx_etcd_hash_table_find(&slots->addresses, &bytes);

    if (address != NULL) {
        treap = ngx_etcd_slot_index_treap(address);
        ngx_etcd_treap_each(&treap, address->newest, handler, data);
    }
}


void
ngx_etcd_slot_index_renew(ngx_etcd_slot_index_t *slots, ngx_etcd_reg_t *reg,
    uint64_t revision)
{
    ngx_etcd_slot_index_take(reg->address, reg);

    reg->gone = 0;
    reg->revision = revision;

    ngx_etcd_slot_index_insert(reg->address, reg);
}


static uint32_t
ngx_etcd_slot_index_release(ngx_etcd_slot_index_t *slots, ngx_etcd_reg_t *reg)
{
    ngx_etcd_slot_address_t  *address;

    address = reg->address;
    slots->nregs--;

    if (address->selected == reg) {
        address->selected = NULL;
    }

    ngx_etcd_slot_index_take(address, reg);

    if (address->newest != NULL) {
        return ngx_etcd_slot_index_newest(address)->entry;
    }

    ngx_etcd_slot_index_free(slots, reg->slot);

    ngx_etcd_hash_table_remove(&slots->addresses, &address->bytes);
    ngx_free(address);

    return 0;
}


uint32_t
ngx_etcd_slot_index_remove(ngx_etcd_slot_index_t *slots, ngx_etcd_reg_t **link)
{
    uint32_t         shown;
    ngx_etcd_reg_t  *reg;

    reg = *link;
    *link = reg->next;

    if (slots->selected != NULL && *slots->selected == NULL) {
        slots->selected = NULL;
    }

    shown = ngx_etcd_slot_index_release(slots, reg);
    ngx_free(reg);

    return shown;
}
