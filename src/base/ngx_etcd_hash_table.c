
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Linear probing: an object is at the place of its hash, or at a later one with
 * no free place in between.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_hash_table.h>
#include <ngx_etcd_siphash.h>
#include <ngx_etcd_str.h>


#define ngx_etcd_hash_table_at(table, n)    ((n) & ((table)->nplaces - 1))


void
ngx_etcd_hash_table_init(ngx_etcd_hash_table_t *table, ngx_log_t *log)
{
    ngx_memzero(table, sizeof(ngx_etcd_hash_table_t));

    table->log = log;
}


void
ngx_etcd_hash_table_done(ngx_etcd_hash_table_t *table)
{
    ngx_free(table->objects);

    ngx_etcd_hash_table_init(table, table->log);
}


/* 0 is the hash of a free place. */

static ngx_inline uint32_t
ngx_etcd_hash_table_hash(ngx_str_t *str)
{
    uint32_t  hash;

    hash = (uint32_t) ngx_etcd_siphash(str);

    return hash ? hash : 1;
}


void *
ngx_etcd_hash_table_find(ngx_etcd_hash_table_t *table, ngx_str_t *str)
{
    uint32_t     hash;
    ngx_str_t   *object;
    ngx_uint_t   i;

    if (table->nplaces == 0) {
        return NULL;
    }

    hash = ngx_etcd_hash_table_hash(str);

    for (i = ngx_etcd_hash_table_at(table, hash);
         table->hashes[i] != 0;
         i = ngx_etcd_hash_table_at(table, i + 1))
    {
        if (table->hashes[i] != hash) {
            continue;
        }

        object = table->objects[i];

        if (ngx_etcd_str_equal(object, str)) {
            return object;
        }
    }

    return NULL;
}


static void
ngx_etcd_hash_table_put(ngx_etcd_hash_table_t *table, ngx_str_t *str,
    uint32_t hash)
{
    ngx_uint_t  i;

    i = ngx_etcd_hash_table_at(table, hash);

    while (table->hashes[i] != 0) {
        i = ngx_etcd_hash_table_at(table, i + 1);
    }

    table->objects[i] = str;
    table->hashes[i] = hash;
}


static ngx_int_t
ngx_etcd_hash_table_grow(ngx_etcd_hash_table_t *table)
{
    ngx_uint_t              i, n;
    ngx_etcd_hash_table_t   old;

    if (ngx_etcd_siphash_init(table->log) != NGX_OK) {
        return NGX_ERROR;
    }

    old = *table;
    n = ngx_max(old.nplaces * 2, 16);

    table->objects = ngx_calloc(n * (sizeof(ngx_str_t *) + sizeof(uint32_t)),
                                table->log);
    if (table->objects == NULL) {
        *table = old;
        return NGX_ERROR;
    }

    table->hashes = (uint32_t *) &table->objects[n];
    table->nplaces = n;

    for (i = 0; i < old.nplaces; i++) {
        if (old.hashes[i] != 0) {
            ngx_etcd_hash_table_put(table, old.objects[i], old.hashes[i]);
        }
    }

    ngx_free(old.objects);

    return NGX_OK;
}


ngx_int_t
ngx_etcd_hash_table_insert(ngx_etcd_hash_table_t *table, ngx_str_t *str)
{
    if (table->n >= table->nplaces / 4 * 3
        && ngx_etcd_hash_table_grow(table) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_etcd_hash_table_put(table, str, ngx_etcd_hash_table_hash(str));
    table->n++;

    return NGX_OK;
}


void *
ngx_etcd_hash_table_add(ngx_etcd_hash_table_t *table, ngx_str_t *str,
    size_t size)
{
    ngx_str_t  *object;

    object = ngx_calloc(size + str->len, table->log);
    if (object == NULL) {
        return NULL;
    }

    object->len = str->len;
    object->data = (u_char *) object + size;
    ngx_memcpy(object->data, str->data, str->len);

    if (ngx_etcd_hash_table_insert(table, object) != NGX_OK) {
        ngx_free(object);
        return NULL;
    }

    return object;
}


ngx_int_t
ngx_etcd_hash_table_reserve(ngx_etcd_hash_table_t *table, ngx_uint_t n)
{
    while (table->n + n > table->nplaces / 4 * 3) {
        if (ngx_etcd_hash_table_grow(table) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


void
ngx_etcd_hash_table_remove(ngx_etcd_hash_table_t *table, ngx_str_t *str)
{
    ngx_uint_t  i, j, home;

    i = ngx_etcd_hash_table_at(table, ngx_etcd_hash_table_hash(str));

    while (table->objects[i] != str) {
        i = ngx_etcd_hash_table_at(table, i + 1);
    }

    /*
     * backward shift deletion: moves an object into the gap if its hash allows,
     * then fills the gap that this leaves
     */

    for (j = ngx_etcd_hash_table_at(table, i + 1);
         table->hashes[j] != 0;
         j = ngx_etcd_hash_table_at(table, j + 1))
    {
        home = table->hashes[j];

        if (ngx_etcd_hash_table_at(table, j - home)
            >= ngx_etcd_hash_table_at(table, j - i))
        {
            table->objects[i] = table->objects[j];
            table->hashes[i] = table->hashes[j];
            i = j;
        }
    }

    table->objects[i] = NULL;
    table->hashes[i] = 0;
    table->n--;
}
