
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_index.h>


static void ngx_etcd_index_inherit(ngx_etcd_index_t *index,
    ngx_etcd_key_t *key, ngx_etcd_key_t *gone);


ngx_etcd_key_t *
ngx_etcd_index_find(ngx_etcd_index_t *index, ngx_str_t *key)
{
    ngx_etcd_mirror_entry_t  *entry;

    entry = (index->mirror != NULL) ? ngx_etcd_mirror_find(index->mirror, key)
                                    : NULL;

    return (entry != NULL) ? (ngx_etcd_key_t *) entry
                           : ngx_etcd_map_find(&index->keys, key);
}


ngx_etcd_key_t *
ngx_etcd_index_key(ngx_etcd_index_t *index, ngx_str_t *name)
{
    ngx_etcd_key_t  *key;

    key = ngx_etcd_index_find(index, name);

    if (key != NULL) {
        return key;
    }

    key = ngx_etcd_map_add(&index->keys, name, sizeof(ngx_etcd_key_t));
    if (key == NULL) {
        return NULL;
    }

    ngx_queue_insert_tail(&index->present, &key->entry.queue);

    return key;
}


void
ngx_etcd_index_forget(ngx_etcd_index_t *index, ngx_etcd_key_t *key)
{
    ngx_etcd_index_clear(index, key);

    ngx_queue_remove(&key->entry.queue);
    ngx_etcd_map_remove(&index->keys, &key->entry.key);
    ngx_free(key);
}


void
ngx_etcd_index_clear(ngx_etcd_index_t *index, ngx_etcd_key_t *key)
{
    while (key->regs != NULL) {
        ngx_etcd_index_remove(index, key, key->regs);
    }

    ngx_etcd_member_host_mark(key->hosts);
    ngx_etcd_member_host_sweep(&key->hosts);

    key->invalid = 0;
    key->twice = 0;
}


ngx_etcd_key_t *
ngx_etcd_index_first(ngx_etcd_index_t *index)
{
    if (index->mirror != NULL) {
        return (ngx_etcd_key_t *) ngx_etcd_mirror_first(index->mirror);
    }

    return ngx_queue_empty(&index->present)
           ? NULL : ngx_etcd_index_key_at(ngx_queue_head(&index->present));
}


ngx_etcd_key_t *
ngx_etcd_index_next(ngx_etcd_index_t *index, ngx_etcd_key_t *key)
{
    ngx_queue_t  *q;

    if (index->mirror != NULL) {
        return (ngx_etcd_key_t *) ngx_etcd_mirror_next(index->mirror,
                                                       &key->entry);
    }

    q = ngx_queue_next(&key->entry.queue);

    return (q != ngx_queue_sentinel(&index->present)) ? ngx_etcd_index_key_at(q)
                                                      : NULL;
}


ngx_int_t
ngx_etcd_index_gone(ngx_etcd_index_t *index, ngx_etcd_key_t *key)
{
    if (index->mirror == NULL) {
        ngx_etcd_index_leave(index, key);
        return NGX_OK;
    }

    if (key->regs == NULL && key->hosts == NULL && !key->invalid) {
        return NGX_OK;
    }

    if (ngx_etcd_map_reserve(&index->keys, 1) != NGX_OK) {
        ngx_etcd_index_clear(index, key);
        return NGX_ERROR;
    }

    ngx_etcd_mirror_hold(index->mirror, &key->entry);

    (void) ngx_etcd_map_insert(&index->keys, &key->entry.key);
    ngx_queue_insert_tail(&index->present, &key->entry.queue);

    ngx_etcd_index_leave(index, key);

    return NGX_OK;
}


void
ngx_etcd_index_leave(ngx_etcd_index_t *index, ngx_etcd_key_t *key)
{
    if (key->gone) {
        return;
    }

    key->gone = 1;

    if (key->regs != NULL) {
        index->live--;
    }

    ngx_queue_remove(&key->entry.queue);
    ngx_queue_insert_tail(&index->gone, &key->entry.queue);
}


void
ngx_etcd_index_present(ngx_etcd_index_t *index, ngx_etcd_key_t *key)
{
    ngx_etcd_key_t  *gone;

    if (index->mirror != NULL) {
        gone = ngx_etcd_map_find(&index->keys, &key->entry.key);

        if (gone != NULL) {
            ngx_etcd_index_inherit(index, key, gone);
        }

        return;
    }

    if (!key->gone) {
        return;
    }

    key->gone = 0;

    if (key->regs != NULL) {
        index->live++;
    }

    ngx_queue_remove(&key->entry.queue);
    ngx_queue_insert_tail(&index->present, &key->entry.queue);
}


/* an entry of the mirror is new: it had none of these */

static void
ngx_etcd_index_inherit(ngx_etcd_index_t *index, ngx_etcd_key_t *key,
    ngx_etcd_key_t *gone)
{
    ngx_etcd_reg_t          *reg;
    ngx_etcd_member_host_t  *host;

    key->regs = gone->regs;
    key->hosts = gone->hosts;
    key->reason = gone->reason;
    key->invalid = gone->invalid;

    if (key->regs != NULL) {
        key->regs->link = &key->regs;
        index->live++;
    }

    for (reg = key->regs; reg != NULL; reg = reg->next) {
        reg->list = &key->regs;
    }

    for (host = key->hosts; host != NULL; host = host->next) {
        host->key = key;
    }

    gone->regs = NULL;
    gone->hosts = NULL;

    index->selected = NULL;

    ngx_etcd_index_forget(index, gone);
}


void
ngx_etcd_index_distrust(ngx_etcd_index_t *index)
{
    ngx_etcd_key_t  *key;

    for (key = ngx_etcd_index_first(index);
         key != NULL;
         key = ngx_etcd_index_next(index, key))
    {
        key->entry.mod_revision = 0;
    }
}
