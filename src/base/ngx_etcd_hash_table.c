
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


#define ngx_etcd_hash_table_at(table, n)    ((n) & ((table)->nplaces - 1))


static ngx_int_t ngx_etcd_hash_table_grow(ngx_etcd_hash_table_t *table);
static void ngx_etcd_hash_table_put(ngx_etcd_hash_table_t *table,
    ngx_str_t *str, uint32_t hash);


void
ngx_etcd_hash_table_init(ngx_etcd_hash_table_t *table, ngx_log_t *log)
{
    ngx_memzero(table, sizeof(ngx_etcd_hash_table_t));

    table->log = log;
}


void
ngx_etcd_hash_table_done(ngx_etcd_hash_table_t *table)
{
    if (table->nplaces != 0) {
        ngx_free(table->places);
    }

    ngx_etcd_hash_table_init(table, table->log);
}


void *
ngx_etcd_hash_table_find(ngx_etcd_hash_table_t *table, ngx_str_t *str)
{
    uint32_t                      hash;
    ngx_uint_t                    i;
    ngx_etcd_hash_table_place_t  *place;

    if (table->nplaces == 0) {
        return NULL;
    }

    hash = ngx_etcd_siphash(str);

    for (i = ngx_etcd_hash_table_at(table, hash);
         /* void */ ;
         i = ngx_etcd_hash_table_at(table, i + 1))
    {
        place = &table->places[i];

        if (place->str == NULL) {
            return NULL;
        }

        if (place->hash == hash
            && place->str->len == str->len
            && ngx_memcmp(place->str->data, str->data, str->len) == 0)
        {
            return place->str;
        }
    }
}


ngx_int_t
ngx_etcd_hash_table_insert(ngx_etcd_hash_table_t *table, ngx_str_t *str)
{
    if (table->n >= table->nplaces / 4 * 3
        && ngx_etcd_hash_table_grow(table) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_etcd_hash_table_put(table, str, ngx_etcd_siphash(str));
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
    ngx_uint_t                    i, j, home;
    ngx_etcd_hash_table_place_t  *places;

    places = table->places;
    i = ngx_etcd_hash_table_at(table, ngx_etcd_siphash(str));

    while (places[i].str != str) {
        i = ngx_etcd_hash_table_at(table, i + 1);
    }

    /*
     * backward shift deletion: moves an object into the gap if its hash allows,
     * then fills the gap that this leaves
     */

    for (j = ngx_etcd_hash_table_at(table, i + 1);
         places[j].str != NULL;
         j = ngx_etcd_hash_table_at(table, j + 1))
    {
        home = places[j].hash;

        if (ngx_etcd_hash_table_at(table, j - home)
            >= ngx_etcd_hash_table_at(table, j - i))
        {
            places[i] = places[j];
            i = j;
        }
    }

    places[i].str = NULL;
    table->n--;
}


static ngx_int_t
ngx_etcd_hash_table_grow(ngx_etcd_hash_table_t *table)
{
    ngx_uint_t                    i, n;
    ngx_etcd_hash_table_place_t  *places, *old;

    if (ngx_etcd_siphash_init(table->log) != NGX_OK) {
        return NGX_ERROR;
    }

    n = table->nplaces;
    old = table->places;

    places = ngx_calloc(ngx_max(n * 2, 16)
                        * sizeof(ngx_etcd_hash_table_place_t), table->log);
    if (places == NULL) {
        return NGX_ERROR;
    }

    table->places = places;
    table->nplaces = ngx_max(n * 2, 16);

    for (i = 0; i < n; i++) {
        if (old[i].str != NULL) {
            ngx_etcd_hash_table_put(table, old[i].str, old[i].hash);
        }
    }

    if (n != 0) {
        ngx_free(old);
    }

    return NGX_OK;
}


static void
ngx_etcd_hash_table_put(ngx_etcd_hash_table_t *table, ngx_str_t *str,
    uint32_t hash)
{
    ngx_uint_t  i;

    i = ngx_etcd_hash_table_at(table, hash);

    while (table->places[i].str != NULL) {
        i = ngx_etcd_hash_table_at(table, i + 1);
    }

    table->places[i].str = str;
    table->places[i].hash = hash;
}
