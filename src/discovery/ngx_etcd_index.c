
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_index.h>


#define ngx_etcd_index_of(n)                                                   \
    ((ngx_etcd_reg_t *) ((u_char *) (n) - offsetof(ngx_etcd_reg_t, node)))


/* an address in use */

struct ngx_etcd_address_s {
    ngx_str_t            bytes;        /* first */
    uint32_t             slot;
    ngx_etcd_newest_t    newest;       /* of its registrations */
    ngx_etcd_reg_t      *selected;     /* that of the selected list */
};


static ngx_int_t ngx_etcd_index_slots(ngx_etcd_index_t *index);
static ngx_int_t ngx_etcd_index_read(ngx_etcd_index_t *index,
    ngx_etcd_zone_t *zone, ngx_uint_t force);
static ngx_int_t ngx_etcd_index_piece(ngx_etcd_index_t *index,
    ngx_etcd_walk_t *walk);
static ngx_int_t ngx_etcd_index_import(ngx_etcd_index_t *index,
    uint32_t slot, ngx_etcd_entry_t *entry);
static ngx_etcd_key_t *ngx_etcd_index_imported(ngx_etcd_index_t *index,
    ngx_str_t *name, ngx_uint_t gone, int64_t revision);
static ngx_int_t ngx_etcd_index_invalid(ngx_etcd_index_t *index);
static void ngx_etcd_index_free_slot(ngx_etcd_index_t *index, uint32_t slot);
static ngx_etcd_address_t *ngx_etcd_index_address(ngx_etcd_index_t *index,
    u_char *sockaddr, socklen_t socklen);
static ngx_int_t ngx_etcd_index_hold(ngx_etcd_index_t *index,
    ngx_etcd_reg_t *reg);
static ngx_etcd_entry_t *ngx_etcd_index_release(ngx_etcd_index_t *index,
    ngx_etcd_reg_t *reg);
static ngx_etcd_entry_t *ngx_etcd_index_newest(ngx_etcd_address_t *address);


ngx_int_t
ngx_etcd_index_create(ngx_etcd_index_t *index, ngx_etcd_zone_t *zone,
    ngx_etcd_set_t *set, ngx_etcd_mirror_t *mirror, ngx_uint_t force,
    ngx_log_t *log)
{
    ngx_int_t  rc;

    ngx_memzero(index, sizeof(ngx_etcd_index_t));

    index->set = set;
    index->mirror = mirror;
    index->log = log;
    index->free_head = NGX_ETCD_SET_NO_SLOT;
    index->free_tail = NGX_ETCD_SET_NO_SLOT;

    ngx_etcd_map_init(&index->keys, log);
    ngx_etcd_map_init(&index->addresses, log);
    ngx_queue_init(&index->present);
    ngx_queue_init(&index->gone);

    if (ngx_etcd_index_slots(index) != NGX_OK) {
        return NGX_ERROR;
    }

    rc = ngx_etcd_index_read(index, zone, force);

    if (rc == NGX_OK) {
        rc = ngx_etcd_index_invalid(index);
    }

    if (rc != NGX_OK) {
        ngx_etcd_index_destroy(index);
    }

    return rc;
}


/* under the mutex, a piece at a time: who is the owner still is the only one */

static ngx_int_t
ngx_etcd_index_read(ngx_etcd_index_t *index, ngx_etcd_zone_t *zone,
    ngx_uint_t force)
{
    ngx_int_t         rc;
    ngx_etcd_map_t   *keys;
    ngx_etcd_walk_t   walk;

    keys = (index->mirror != NULL) ? &index->mirror->map : &index->keys;

    ngx_memzero(&walk, sizeof(ngx_etcd_walk_t));

    do {
        if (ngx_etcd_map_reserve(keys, NGX_ETCD_SET_SLOTS) != NGX_OK
            || ngx_etcd_map_reserve(&index->addresses, NGX_ETCD_SET_SLOTS)
               != NGX_OK)
        {
            return NGX_ERROR;
        }

        if (ngx_etcd_zone_lock_patient(zone) != NGX_OK) {
            return NGX_AGAIN;
        }

        rc = (force || ngx_etcd_zone_owned(zone))
             ? ngx_etcd_index_piece(index, &walk) : NGX_DECLINED;

        ngx_etcd_zone_unlock(zone);
        ngx_etcd_zone_pause();

    } while (rc == NGX_AGAIN);

    return rc;
}


static ngx_int_t
ngx_etcd_index_piece(ngx_etcd_index_t *index, ngx_etcd_walk_t *walk)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_SET_SLOTS; i++) {

        if (!ngx_etcd_walk_next(index->set, walk)) {
            return NGX_OK;
        }

        if (walk->entry == NULL) {
            ngx_etcd_index_free_slot(index, walk->n);

        } else if (ngx_etcd_index_import(index, walk->n, walk->entry)
                   != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_AGAIN;
}


static ngx_int_t
ngx_etcd_index_import(ngx_etcd_index_t *index, uint32_t slot,
    ngx_etcd_entry_t *entry)
{
    ngx_str_t        name;
    ngx_etcd_key_t  *key;
    ngx_etcd_reg_t  *reg;

    index->serial = ngx_max(index->serial, entry->serial);

    if (entry->key_len == 0) {
        return (ngx_etcd_index_add(index, NULL, entry, slot) != NULL)
               ? NGX_OK : NGX_ERROR;
    }

    name.data = ngx_etcd_entry_key(entry);
    name.len = entry->key_len;

    key = ngx_etcd_index_imported(index, &name, entry->gone,
                                  entry->mod_revision);
    if (key == NULL) {
        return NGX_ERROR;
    }

    /* entries of one slot come in a row */

    if (key->regs != NULL && key->regs->slot == slot) {
        key->twice = 1;
    }

    if (key->twice) {
        key->entry.mod_revision = 0;
    }

    reg = ngx_etcd_index_add(index, key, entry, slot);
    if (reg == NULL) {
        return NGX_ERROR;
    }

    reg->gone = entry->gone;

    return NGX_OK;
}


/* NULL: no memory */

static ngx_etcd_key_t *
ngx_etcd_index_imported(ngx_etcd_index_t *index, ngx_str_t *name,
    ngx_uint_t gone, int64_t revision)
{
    ngx_uint_t       own;
    ngx_etcd_key_t  *key;

    own = (index->mirror == NULL);
    key = ngx_etcd_index_find(index, name);

    if (key == NULL) {
        own |= gone;

        key = own ? ngx_etcd_index_key(index, name)
                  : (ngx_etcd_key_t *) ngx_etcd_mirror_seed(index->mirror,
                                                            name, 0);
        if (key == NULL) {
            return NULL;
        }
    }

    /* a key that the mirror has stays, whatever a part of it says */

    if (own && gone) {
        ngx_etcd_index_leave(index, key);
    }

    key->entry.mod_revision = ngx_max(key->entry.mod_revision, revision);

    return key;
}


static ngx_int_t
ngx_etcd_index_invalid(ngx_etcd_index_t *index)
{
    ngx_str_t            name;
    ngx_etcd_key_t      *key;
    ngx_etcd_invalid_t  *invalid;

    for (invalid = index->set->invalid;
         invalid != NULL;
         invalid = invalid->next)
    {
        name.data = invalid->bytes;
        name.len = invalid->key_len;

        key = ngx_etcd_index_imported(index, &name, 0, invalid->mod_revision);
        if (key == NULL) {
            return NGX_ERROR;
        }

        key->invalid = 1;
        key->reason = ngx_crc32_long(invalid->bytes + invalid->key_len,
                                     invalid->len);

        if (index->mirror != NULL) {
            key->reason ^= (uint32_t) invalid->mod_revision;
        }
    }

    return NGX_OK;
}


void
ngx_etcd_index_destroy(ngx_etcd_index_t *index)
{
    ngx_queue_t     *q;
    ngx_etcd_key_t  *key;

    while (!ngx_queue_empty(&index->gone)) {
        q = ngx_queue_head(&index->gone);
        ngx_etcd_index_forget(index, ngx_etcd_index_key_at(q));
    }

    while (!ngx_queue_empty(&index->present)) {
        q = ngx_queue_head(&index->present);
        ngx_etcd_index_forget(index, ngx_etcd_index_key_at(q));
    }

    for (key = ngx_etcd_index_first(index);
         key != NULL;
         key = ngx_etcd_index_next(index, key))
    {
        ngx_etcd_index_clear(index, key);
    }

    while (index->statics != NULL) {
        ngx_etcd_index_remove(index, NULL, index->statics);
    }

    ngx_etcd_map_done(&index->keys);
    ngx_etcd_map_done(&index->addresses);

    if (index->next_free != NULL) {
        ngx_free(index->next_free);
        index->next_free = NULL;
    }
}


static ngx_int_t
ngx_etcd_index_slots(ngx_etcd_index_t *index)
{
    uint32_t    *next;
    ngx_uint_t   n;

    n = index->set->nslots;

    next = ngx_alloc(ngx_max(n, 1) * sizeof(uint32_t), index->log);
    if (next == NULL) {
        return NGX_ERROR;
    }

    if (index->next_free != NULL) {
        ngx_memcpy(next, index->next_free, index->nslots * sizeof(uint32_t));
        ngx_free(index->next_free);
    }

    index->next_free = next;
    index->nslots = n;

    return NGX_OK;
}


ngx_int_t
ngx_etcd_index_grown(ngx_etcd_index_t *index)
{
    ngx_uint_t  n;

    n = index->nslots;

    if (ngx_etcd_index_slots(index) != NGX_OK) {
        return NGX_ERROR;
    }

    for ( /* void */ ; n < index->nslots; n++) {
        ngx_etcd_index_free_slot(index, n);
    }

    return NGX_OK;
}


/* first in, first out: a slot rests for as long as possible */

static void
ngx_etcd_index_free_slot(ngx_etcd_index_t *index, uint32_t slot)
{
    index->next_free[slot] = NGX_ETCD_SET_NO_SLOT;

    if (index->free_head == NGX_ETCD_SET_NO_SLOT) {
        index->free_head = slot;

    } else {
        index->next_free[index->free_tail] = slot;
    }

    index->free_tail = slot;
}


uint32_t
ngx_etcd_index_slot(ngx_etcd_index_t *index, u_char *sockaddr,
    socklen_t socklen)
{
    ngx_etcd_address_t  *address;

    address = ngx_etcd_index_address(index, sockaddr, socklen);

    return (address != NULL) ? address->slot : index->free_head;
}


static ngx_etcd_address_t *
ngx_etcd_index_address(ngx_etcd_index_t *index, u_char *sockaddr,
    socklen_t socklen)
{
    ngx_str_t  bytes;

    bytes.data = sockaddr;
    bytes.len = socklen;

    return ngx_etcd_map_find(&index->addresses, &bytes);
}


ngx_etcd_reg_t *
ngx_etcd_index_add(ngx_etcd_index_t *index, ngx_etcd_key_t *key,
    ngx_etcd_entry_t *entry, uint32_t slot)
{
    ngx_etcd_reg_t  *reg, **list;

    reg = ngx_calloc(sizeof(ngx_etcd_reg_t), index->log);
    if (reg == NULL) {
        return NULL;
    }

    reg->entry = entry;
    reg->slot = slot;
    reg->node.revision = entry->mod_revision;

    /* an entry has its serial when it is published */

    reg->node.serial = entry->serial ? entry->serial : ++index->serial;

    if (ngx_etcd_index_hold(index, reg) != NGX_OK) {
        ngx_free(reg);
        return NULL;
    }

    list = &index->statics;

    if (key != NULL) {
        list = &key->regs;

        if (key->regs == NULL && !key->gone) {
            index->live++;
        }
    }

    reg->next = *list;
    reg->link = list;
    reg->list = list;

    if (reg->next != NULL) {
        reg->next->link = &reg->next;
    }

    *list = reg;

    if (index->selected == list) {
        reg->address->selected = reg;
    }

    return reg;
}


ngx_etcd_reg_t *
ngx_etcd_index_reg(ngx_etcd_index_t *index, ngx_etcd_key_t *key,
    u_char *sockaddr, socklen_t socklen)
{
    ngx_etcd_reg_t      *reg, **list;
    ngx_etcd_address_t  *address;

    list = (key != NULL) ? &key->regs : &index->statics;

    if (index->selected != list) {
        index->selected = list;

        for (reg = *list; reg != NULL; reg = reg->next) {
            reg->address->selected = reg;
        }
    }

    address = ngx_etcd_index_address(index, sockaddr, socklen);

    /* other lists were selected before */

    return (address != NULL
            && address->selected != NULL
            && address->selected->list == list)
           ? address->selected : NULL;
}


/* the registration's address is in use: by it, or by it too */

static ngx_int_t
ngx_etcd_index_hold(ngx_etcd_index_t *index, ngx_etcd_reg_t *reg)
{
    ngx_str_t                bytes;
    ngx_etcd_address_t      *address;
    ngx_etcd_member_pack_t   record;

    ngx_etcd_member_pack_read(&record, ngx_etcd_entry_payload(reg->entry));

    address = ngx_etcd_index_address(index, record.sockaddr, record.socklen);

    if (address == NULL) {
        bytes.data = record.sockaddr;
        bytes.len = record.socklen;

        address = ngx_etcd_map_add(&index->addresses, &bytes,
                                   sizeof(ngx_etcd_address_t));
        if (address == NULL) {
            return NGX_ERROR;
        }

        address->slot = reg->slot;
        ngx_etcd_newest_init(&address->newest);

        /* on taking over the slot is none of the free ones */

        if (reg->slot == index->free_head) {
            index->free_head = index->next_free[reg->slot];
        }
    }

    ngx_etcd_newest_insert(&address->newest, &reg->node);
    reg->address = address;

    return NGX_OK;
}


void
ngx_etcd_index_renew(ngx_etcd_index_t *index, ngx_etcd_reg_t *reg,
    ngx_etcd_entry_t *entry, uint64_t revision)
{
    ngx_etcd_newest_t  *newest;

    newest = &reg->address->newest;

    ngx_etcd_newest_remove(newest, &reg->node);

    reg->entry = entry;
    reg->gone = 0;
    reg->node.revision = revision;
    reg->node.serial = ++index->serial;

    ngx_etcd_newest_insert(newest, &reg->node);
}


ngx_etcd_entry_t *
ngx_etcd_index_shown(ngx_etcd_reg_t *reg)
{
    return ngx_etcd_index_newest(reg->address);
}


static ngx_etcd_entry_t *
ngx_etcd_index_newest(ngx_etcd_address_t *address)
{
    ngx_etcd_newest_node_t  *node;

    node = ngx_etcd_newest_first(&address->newest);

    return (node != NULL) ? ngx_etcd_index_of(node)->entry : NULL;
}


ngx_etcd_entry_t *
ngx_etcd_index_remove(ngx_etcd_index_t *index, ngx_etcd_key_t *key,
    ngx_etcd_reg_t *reg)
{
    ngx_etcd_entry_t  *shown;

    *reg->link = reg->next;

    if (reg->next != NULL) {
        reg->next->link = reg->link;
    }

    if (key != NULL && key->regs == NULL && !key->gone) {
        index->live--;
    }

    shown = ngx_etcd_index_release(index, reg);
    ngx_free(reg);

    return shown;
}


static ngx_etcd_entry_t *
ngx_etcd_index_release(ngx_etcd_index_t *index, ngx_etcd_reg_t *reg)
{
    ngx_etcd_entry_t    *shown;
    ngx_etcd_address_t  *address;

    /* the entry is not looked at: it may belong to another owner by now */

    address = reg->address;

    if (address->selected == reg) {
        address->selected = NULL;
    }

    ngx_etcd_newest_remove(&address->newest, &reg->node);

    shown = ngx_etcd_index_newest(address);
    if (shown != NULL) {
        return shown;
    }

    ngx_etcd_index_free_slot(index, address->slot);

    ngx_etcd_map_remove(&index->addresses, &address->bytes);
    ngx_free(address);

    return NULL;
}
