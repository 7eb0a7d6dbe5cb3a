
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
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_map.h>
#include "unit.h"


#define NGX_ETCD_UNIT_LOOKS  32


typedef struct {
    ngx_str_t        name;         /* first, as the map wants it */
    u_char           text[NGX_INT_T_LEN];
    ngx_uint_t       there;
} ngx_etcd_unit_name_t;


static ngx_uint_t ngx_etcd_unit_looks(ngx_etcd_map_t *map,
    ngx_etcd_unit_name_t *names, ngx_uint_t n, ngx_uint_t from);


char *
ngx_etcd_unit_map(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t             *value;
    ngx_uint_t             i, n, ops, inserted, removed, wrong;
    ngx_etcd_map_t         map;
    ngx_etcd_unit_name_t  *names, *name;

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

    ngx_etcd_map_init(&map, cf->log);

    wrong = ngx_etcd_unit_looks(&map, names, n, 0);

    while (ops--) {
        i = random() % n;
        name = &names[i];

        if (name->there) {
            ngx_etcd_map_remove(&map, &name->name);
            removed++;

        } else if (ngx_etcd_map_insert(&map, &name->name) == NGX_OK) {
            inserted++;

        } else {
            return NGX_CONF_ERROR;
        }

        name->there = !name->there;

        wrong += ngx_etcd_unit_looks(&map, names, n, i);
    }

    ngx_etcd_map_done(&map);

    printf("map: %lu %lu %lu\n", (unsigned long) inserted,
           (unsigned long) removed, (unsigned long) wrong);

    return NGX_CONF_OK;
}


static ngx_uint_t
ngx_etcd_unit_looks(ngx_etcd_map_t *map, ngx_etcd_unit_name_t *names,
    ngx_uint_t n, ngx_uint_t from)
{
    void                  *found;
    ngx_uint_t             i, wrong;
    ngx_etcd_unit_name_t  *name;

    wrong = 0;

    for (i = 0; i < ngx_min(n, NGX_ETCD_UNIT_LOOKS); i++) {
        name = &names[(from + i) % n];
        found = ngx_etcd_map_find(map, &name->name);

        wrong += (found != (name->there ? name : NULL));
    }

    return wrong;
}
