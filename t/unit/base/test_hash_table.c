
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_hash_table.h>
#include "ngx_etcd_tap.h"


#define TEST_HASH_TABLE_NAMES  20000
#define TEST_HASH_TABLE_STEPS  100000
#define TEST_HASH_TABLE_LOOKS  32


/* an object begins with its string */

typedef struct {
    ngx_str_t    name;
    ngx_uint_t   number;
} test_hash_table_object_t;


static void
test_hash_table_add(ngx_pool_t *pool)
{
    ngx_str_t                 *name;
    ngx_etcd_hash_table_t      table;
    test_hash_table_object_t  *object;

    ngx_etcd_hash_table_init(&table, pool->log);

    name = tap_string(pool, "name");

    tap_check(ngx_etcd_hash_table_find(&table, name) == NULL);

    object = ngx_etcd_hash_table_add(&table, name,
                                     sizeof(test_hash_table_object_t));

    if (object == NULL) {
        tap_check(table.n == 0);
        ngx_etcd_hash_table_done(&table);
        tap_check(test_alloc_failed());
        return;
    }

    /* the string is a copy */

    name->data[0] = 'g';

    tap_check(object->number == 0);
    tap_text(&object->name, "name");
    tap_check(ngx_etcd_hash_table_find(&table, name) == NULL);

    name->data[0] = 'n';
    tap_check(ngx_etcd_hash_table_find(&table, name) == object);

    name->len = 3;
    tap_check(ngx_etcd_hash_table_find(&table, name) == NULL);

    ngx_etcd_hash_table_remove(&table, &object->name);
    name->len = 4;
    tap_check(ngx_etcd_hash_table_find(&table, name) == NULL);

    ngx_free(object);
    ngx_etcd_hash_table_done(&table);
    ngx_etcd_hash_table_done(&table);
}


/* Reserved places need no memory. */

static void
test_hash_table_reserve(ngx_pool_t *pool)
{
    ngx_str_t              names[100];
    u_char                 bytes[100];
    ngx_uint_t             i, nplaces;
    ngx_etcd_hash_table_t  table;

    ngx_etcd_hash_table_init(&table, pool->log);

    if (ngx_etcd_hash_table_reserve(&table, 100) != NGX_OK) {
        ngx_etcd_hash_table_done(&table);
        tap_check(test_alloc_failed());
        return;
    }

    nplaces = table.nplaces;

    for (i = 0; i < 100; i++) {
        bytes[i] = (u_char) i;
        names[i].data = &bytes[i];
        names[i].len = 1;

        tap_check(ngx_etcd_hash_table_insert(&table, &names[i]) == NGX_OK);
    }

    tap_check(table.nplaces == nplaces && table.n == 100);

    for (i = 0; i < 100; i++) {
        tap_check(ngx_etcd_hash_table_find(&table, &names[i]) == &names[i]);
    }

    ngx_etcd_hash_table_done(&table);
}


static ngx_str_t   test_hash_table_names[TEST_HASH_TABLE_NAMES];
static u_char      test_hash_table_there[TEST_HASH_TABLE_NAMES];


/*
 * Inserts and removes one of n names; then all of them are looked for where
 * they are few, and some where they are many.  Returns 1 if what is there is
 * found, and nothing else.
 */

static ngx_uint_t
test_hash_table_step(ngx_etcd_hash_table_t *table, ngx_uint_t n)
{
    ngx_str_t   *name;
    ngx_uint_t   i, k;

    k = random() % n;
    name = &test_hash_table_names[k];

    if (test_hash_table_there[k]) {
        ngx_etcd_hash_table_remove(table, name);

    } else if (ngx_etcd_hash_table_insert(table, name) != NGX_OK) {
        return 0;
    }

    test_hash_table_there[k] ^= 1;

    for (i = 0; i < ngx_min(n, TEST_HASH_TABLE_LOOKS); i++, k++) {
        name = &test_hash_table_names[k % n];

        if ((ngx_etcd_hash_table_find(table, name) == name)
            != test_hash_table_there[k % n])
        {
            return 0;
        }
    }

    return 1;
}


static void
test_hash_table_random(ngx_pool_t *pool)
{
    ngx_uint_t              i, j, n;
    ngx_etcd_hash_table_t   table;

    static u_char      bytes[TEST_HASH_TABLE_NAMES][8];
    static ngx_uint_t  sizes[] = { 1, 10, 24, TEST_HASH_TABLE_NAMES };

    srandom(1);
    test_alloc_pause();

    for (j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
        n = sizes[j];

        ngx_etcd_hash_table_init(&table, pool->log);
        ngx_memzero(test_hash_table_there, sizeof(test_hash_table_there));

        for (i = 0; i < n; i++) {
            test_hash_table_names[i].data = bytes[i];
            test_hash_table_names[i].len = ngx_sprintf(bytes[i], "%ui", i)
                                           - bytes[i];
        }

        for (i = 0; i < TEST_HASH_TABLE_STEPS; i++) {
            tap_check(test_hash_table_step(&table, n));
        }

        ngx_etcd_hash_table_done(&table);
    }

    test_alloc_resume();
}


ngx_etcd_tap_test_t  test_hash_table[] = {
    { "hash table: an object", test_hash_table_add },
    { "hash table: reserved", test_hash_table_reserve },
    { "hash table: names that come and go", test_hash_table_random },
    { NULL, NULL }
};
