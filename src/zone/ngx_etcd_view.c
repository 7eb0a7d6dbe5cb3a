
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_counter.h>
#include <ngx_etcd_view.h>


static ngx_int_t
ngx_etcd_view_lock(ngx_etcd_view_t *view)
{
    if (ngx_etcd_zone_lock(view->zone) != NGX_OK) {
        return NGX_AGAIN;
    }

    if (view->set->object.id != view->id) {
        ngx_etcd_zone_unlock(view->zone);
        return NGX_DECLINED;
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_view_open(ngx_etcd_view_t *view, ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, uint32_t id)
{
    ngx_int_t  rc;

    ngx_memzero(view, offsetof(ngx_etcd_view_t, members));

    view->zone = zone;
    view->set = set;
    view->id = id;

    rc = ngx_etcd_view_lock(view);
    if (rc != NGX_OK) {
        return rc;
    }

    view->newest = zone->sh->batch.uid;
    view->generation = set->generation;
    view->revision = set->revision;
    view->terms = set->commit.terms;
    view->ninvalid = set->ninvalid;
    view->requests = set->commit.requests;

    ngx_memcpy(view->unused, set->unused, sizeof(view->unused));

    ngx_etcd_zone_unlock(zone);

    return NGX_OK;
}


/* Copies key and payload of an entry, and what is known of its key. */

static ngx_etcd_view_member_t *
ngx_etcd_view_entry(ngx_etcd_view_t *view, ngx_etcd_entry_t *entry, u_char **p)
{
    ngx_etcd_view_member_t  *member;

    member = &view->members[view->n++];

    ngx_memzero(member, sizeof(ngx_etcd_view_member_t));

    member->key.data = *p;
    member->key.len = entry->key_len;
    member->payload = *p + entry->key_len;
    member->mod_revision = entry->mod_revision;
    member->lease = entry->lease;

    *p = ngx_cpymem(*p, entry->bytes, (size_t) entry->key_len + entry->len);

    return member;
}


/*
 * The members that the slot does not show.  Requests and connections are those
 * of the one that it shows.
 */

static void
ngx_etcd_view_hidden(ngx_etcd_view_t *view, ngx_etcd_slot_t *slot, u_char **p)
{
    size_t                   room;
    ngx_str_t               *key;
    ngx_uint_t               n;
    ngx_etcd_entry_t        *entry;
    ngx_etcd_view_member_t  *member;

    key = &view->members[view->n - 1].key;
    room = view->bytes + NGX_ETCD_VIEW_BYTES - *p;
    room = ngx_min(room, NGX_ETCD_VIEW_BYTES / 4);
    entry = slot->entry->next;

    for (n = 0; entry != slot->entry && n < NGX_ETCD_VIEW_HIDDEN; n++) {

        if ((size_t) entry->key_len + entry->len > room) {
            return;
        }

        room -= (size_t) entry->key_len + entry->len;

        member = ngx_etcd_view_entry(view, entry, p);
        member->hidden_by = *key;

        entry = entry->next;
    }
}


/* Returns 0 if the view has no room for the member now. */

static ngx_uint_t
ngx_etcd_view_take(ngx_etcd_view_t *view, ngx_etcd_slot_t *slot, u_char **p)
{
    size_t                   len, hidden, left;
    ngx_uint_t               more;
    ngx_etcd_note_t         *note;
    ngx_etcd_entry_t        *entry;
    ngx_etcd_view_member_t  *member;

    entry = slot->entry;

    if (entry == NULL || (int32_t) (slot->uid - view->newest) > 0) {
        return 1;
    }

    len = (size_t) entry->key_len + entry->len;
    left = view->bytes + NGX_ETCD_VIEW_BYTES - *p;

    more = (entry->next != entry);
    hidden = more ? entry->next->key_len : 0;

    if (view->n != 0
        && (view->n + 1 + more * NGX_ETCD_VIEW_HIDDEN > NGX_ETCD_VIEW_MEMBERS
            || len + hidden + more * (NGX_ETCD_VIEW_BYTES / 4) > left))
    {
        return 0;
    }

    /* A member that never fits is skipped, or reading would not end. */

    if (len + hidden > left) {
        return 1;
    }

    member = ngx_etcd_view_entry(view, entry, p);

    member->requests = slot->requests;
    member->conns = ngx_etcd_counter_get(&slot->conns, slot->uid);
    member->fails = ngx_etcd_counter_get(&slot->fails, slot->uid);
    member->idle = (int32_t) ((uint32_t) ngx_time() - slot->checked);
    member->failed = slot->accessed
                     ? (int32_t) ((uint32_t) ngx_time() - slot->accessed) : -1;
    member->verdict = ngx_etcd_counter_get(&slot->verdict, slot->uid);
    member->held = (slot->entry->gone == NGX_ETCD_ENTRY_HELD);

    note = ngx_etcd_member_set_note(slot, view->next);

    if (note != NULL && note->uid == slot->uid) {
        member->note = *note;
    }

    member->counted = ngx_etcd_member_outcome_sum(view->set, view->next,
                                                  &member->answers);

    if (hidden != 0) {
        member->hides.data = *p;
        member->hides.len = hidden;

        *p = ngx_cpymem(*p, entry->next->bytes, hidden);
    }

    if (more) {
        ngx_etcd_view_hidden(view, slot, p);
    }

    return 1;
}


ngx_int_t
ngx_etcd_view_read(ngx_etcd_view_t *view)
{
    u_char           *p;
    ngx_int_t         rc;
    ngx_uint_t        seen;
    ngx_etcd_slot_t  *slot;

    view->n = 0;

    rc = ngx_etcd_view_lock(view);
    if (rc != NGX_OK) {
        return rc;
    }

    p = view->bytes;

    for (seen = 0; seen < NGX_ETCD_MEMBER_SET_PIECE; seen++) {

        slot = ngx_etcd_member_set_slot(view->set, view->next);

        if (slot == NULL) {
            rc = NGX_DONE;
            break;
        }

        if (!ngx_etcd_view_take(view, slot, &p)) {
            break;
        }

        view->requests += slot->requests;
        view->next++;
    }

    ngx_etcd_zone_unlock(view->zone);

    return rc;
}


static ngx_int_t
ngx_etcd_view_copy_invalid(ngx_etcd_member_set_t *set, ngx_array_t *list,
    u_char *p, u_char *last)
{
    ngx_etcd_invalid_t       *invalid;
    ngx_etcd_view_invalid_t  *item;

    for (invalid = set->invalid; invalid != NULL; invalid = invalid->next) {

        if ((size_t) invalid->key_len + invalid->len > (size_t) (last - p)) {
            continue;
        }

        item = ngx_array_push(list);
        if (item == NULL) {
            return NGX_ERROR;
        }

        item->mod_revision = invalid->mod_revision;
        item->key.data = p;
        item->key.len = invalid->key_len;
        item->reason.data = p + invalid->key_len;
        item->reason.len = invalid->len;

        p = ngx_cpymem(p, invalid->bytes, invalid->key_len + invalid->len);
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_view_invalid(ngx_etcd_view_t *view, ngx_pool_t *pool,
    ngx_array_t *list)
{
    size_t               size;
    u_char              *p;
    ngx_int_t            rc;
    ngx_uint_t           n;
    ngx_etcd_invalid_t  *invalid;

    rc = ngx_etcd_view_lock(view);
    if (rc != NGX_OK) {
        return rc;
    }

    size = 0;
    n = view->set->ninvalid;

    for (invalid = view->set->invalid;
         invalid != NULL;
         invalid = invalid->next)
    {
        size += invalid->key_len + invalid->len;
    }

    ngx_etcd_zone_unlock(view->zone);

    /* a key that becomes invalid after the count is not shown yet */

    p = ngx_pnalloc(pool, size + 1);

    if (p == NULL
        || ngx_array_init(list, pool, n + 1, sizeof(ngx_etcd_view_invalid_t))
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    rc = ngx_etcd_view_lock(view);

    if (rc == NGX_OK) {
        rc = ngx_etcd_view_copy_invalid(view->set, list, p, p + size);
        ngx_etcd_zone_unlock(view->zone);
    }

    return rc;
}


ngx_int_t
ngx_etcd_view_unused(ngx_etcd_view_t *view, ngx_pool_t *pool,
    ngx_etcd_unused_t *unused)
{
    ngx_int_t  rc;

    rc = ngx_etcd_view_lock(view);

    if (rc == NGX_OK) {
        rc = ngx_etcd_unused_copy(view->set, unused, pool);
        ngx_etcd_zone_unlock(view->zone);
    }

    return rc;
}


uint64_t
ngx_etcd_view_requests(ngx_etcd_view_t *view)
{
    uint64_t              shown;
    ngx_etcd_atomic64_t  *word;

    word = &view->set->counts.requests_shown;
    shown = __atomic_load_n(word, __ATOMIC_RELAXED);

    while (view->requests > shown) {
        if (__atomic_compare_exchange_n(word, &shown, view->requests, 1,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        {
            return view->requests;
        }
    }

    return shown;
}
