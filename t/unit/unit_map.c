
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A map beside an array that says what is in it, as a directive:
 *
 *     etcd_map NAMES OPERATIONS SEED;
 *
 * Inserts and removes names at random.  After each operation all of them are
 * looked for where they are few, and some where they are many.  Writes "map:
 * INSERTED REMOVED WRONG".
 *
 *     etcd_map_flood BLOCKS;
 *
 * Inserts 2 to the power of BLOCKS names that MurmurHash2 cannot tell apart.
 * Writes "map: NAMES HASHES": how many values they have in the map.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_hash_table.h>
#include "unit.h"


#define NGX_ETCD_UNIT_LOOKS   32
#define NGX_ETCD_UNIT_BLOCKS  16


typedef struct {
    ngx_str_t        name;         /* first, as the map wants it */
    u_char           text[NGX_INT_T_LEN];
    ngx_uint_t       there;
} ngx_etcd_unit_name_t;


static ngx_uint_t ngx_etcd_unit_hashes(ngx_etcd_hash_table_t *map);
static int ngx_libc_cdecl ngx_etcd_unit_hash_cmp(const void *one,
    const void *two);
static void ngx_etcd_unit_collide(u_char *name, ngx_uint_t n);
static ngx_uint_t ngx_etcd_unit_looks(ngx_etcd_hash_table_t *map,
    ngx_etcd_unit_name_t *names, ngx_uint_t n, ngx_uint_t from);


char *
ngx_etcd_unit_map(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t              *value;
    ngx_uint_t              i, n, ops, inserted, removed, wrong;
    ngx_etcd_unit_name_t   *names, *name;
    ngx_etcd_hash_table_t   map;

    value = cf->args->elts;

    n = ngx_atoi(value[1].data, value[1].len);
    ops = ngx_atoi(value[2].data, value[2].len);
    srandom(ngx_atoi(value[3].data, value[3].len));

    names = ngx_pcalloc(cf->pool, n * sizeof(ngx_etcd_unit_name_t));
    if (names == NULL) {
        return NGX_CONF_ERROR;
    }

    for (i = 0; i < n; i++) {
        names[i].name.data = names[i].text;
        names[i].name.len = ngx_sprintf(names[i].text, "%ui", i)
                            - names[i].text;
    }

    inserted = 0;
    removed = 0;

    ngx_etcd_hash_table_init(&map, cf->log);

    wrong = ngx_etcd_unit_looks(&map, names, n, 0);

    while (ops--) {
        i = random() % n;
        name = &names[i];

        if (name->there) {
            ngx_etcd_hash_table_remove(&map, &name->name);
            removed++;

        } else if (ngx_etcd_hash_table_insert(&map, &name->name) == NGX_OK) {
            inserted++;

        } else {
            return NGX_CONF_ERROR;
        }

        name->there = !name->there;

        wrong += ngx_etcd_unit_looks(&map, names, n, i);
    }

    ngx_etcd_hash_table_done(&map);

    printf("map: %lu %lu %lu\n", (unsigned long) inserted,
           (unsigned long) removed, (unsigned long) wrong);

    return NGX_CONF_OK;
}


static ngx_uint_t
ngx_etcd_unit_looks(ngx_etcd_hash_table_t *map, ngx_etcd_unit_name_t *names,
    ngx_uint_t n, ngx_uint_t from)
{
    void                  *found;
    ngx_uint_t             i, wrong;
    ngx_etcd_unit_name_t  *name;

    wrong = 0;

    for (i = 0; i < ngx_min(n, NGX_ETCD_UNIT_LOOKS); i++) {
        name = &names[(from + i) % n];
        found = ngx_etcd_hash_table_find(map, &name->name);

        wrong += (found != (name->there ? name : NULL));
    }

    return wrong;
}


char *
ngx_etcd_unit_map_flood(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    u_char                 *p;
    uint32_t                first;
    ngx_str_t              *value, *names;
    ngx_uint_t              i, n;
    ngx_etcd_hash_table_t   map;

    value = cf->args->elts;
    n = (ngx_uint_t) 1 << ngx_atoi(value[1].data, value[1].len);

    names = ngx_palloc(cf->pool, n * sizeof(ngx_str_t));
    p = ngx_palloc(cf->pool, n * NGX_ETCD_UNIT_BLOCKS * 8);

    if (names == NULL || p == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_etcd_hash_table_init(&map, cf->log);

    for (i = 0; i < n; i++, p += NGX_ETCD_UNIT_BLOCKS * 8) {
        names[i].data = p;
        names[i].len = NGX_ETCD_UNIT_BLOCKS * 8;

        ngx_etcd_unit_collide(p, i);

        first = ngx_murmur_hash2(names[0].data, names[0].len);

        if (ngx_murmur_hash2(p, names[i].len) != first
            || ngx_etcd_hash_table_find(&map, &names[i]) != NULL
            || ngx_etcd_hash_table_insert(&map, &names[i]) != NGX_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    printf("map: %lu %lu\n", (unsigned long) n,
           (unsigned long) ngx_etcd_unit_hashes(&map));

    ngx_etcd_hash_table_done(&map);

    return NGX_CONF_OK;
}


/*
 * Two words that are mixed in one after the other cancel each other where both
 * differ in their highest bit: multiplication by an odd number keeps it.
 */

static void
ngx_etcd_unit_collide(u_char *name, ngx_uint_t n)
{
    uint32_t    word, flip;
    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_UNIT_BLOCKS * 2; i++) {
        flip = (n >> (i / 2)) & 1;

        /* the inverse of MurmurHash2's mixing of a word */

        word = (uint32_t) (i * 7919) ^ (flip << 31);
        word *= 0xe59b19bd;
        word ^= word >> 24;
        word *= 0xe59b19bd;

        ngx_memcpy(name + i * 4, &word, sizeof(uint32_t));
    }
}


static ngx_uint_t
ngx_etcd_unit_hashes(ngx_etcd_hash_table_t *map)
{
    ngx_uint_t  i, n;

    qsort(map->places, map->nplaces, sizeof(ngx_etcd_hash_table_place_t),
          ngx_etcd_unit_hash_cmp);

    n = 0;

    for (i = 0; i < map->nplaces; i++) {
        n += (map->places[i].str != NULL
              && (i == 0 || map->places[i - 1].str == NULL
                  || map->places[i - 1].hash != map->places[i].hash));
    }

    return n;
}


/* free places first */

static int ngx_libc_cdecl
ngx_etcd_unit_hash_cmp(const void *one, const void *two)
{
    const ngx_etcd_hash_table_place_t  *first = one;
    const ngx_etcd_hash_table_place_t  *second = two;

    if (first->str == NULL || second->str == NULL) {
        return (first->str != NULL) - (second->str != NULL);
    }

    return (first->hash > second->hash) - (first->hash < second->hash);
}
