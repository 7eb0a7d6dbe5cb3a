
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_mirror_entry.h>
#include "ngx_etcd_tap.h"


static void
test_candidate_names(ngx_pool_t *pool)
{
    ngx_uint_t               i;
    ngx_etcd_mirror_entry_t  entry;

    static struct {
        char        *name;
        int64_t      lease;
        ngx_uint_t   candidate;
        ngx_uint_t   decimal;
    } cases[] = {
        { "694d7f2e6c1a0b01", 0, 1, 0 },
        { "1a", 26, 1, 0 },
        { "26", 26, 1, 1 },
        { "7587862231234567890", 7587862231234567890, 1, 1 },
        { "7587862231234567891", 7587862231234567890, 0, 0 },
        { "-26", -26, 1, 1 },
        { "0", 0, 0, 0 },
        { "01a", 26, 0, 0 },
        { "1A", 26, 0, 0 },
        { "1a-", 26, 0, 0 },
        { "1g", 26, 0, 0 },
        { "", 26, 0, 0 },
        { "694d7f2e6c1a0b011", 0, 0, 0 }
    };

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ngx_memzero(&entry, sizeof(ngx_etcd_mirror_entry_t));

        /* the prefix is "e/" */

        entry.key.len = ngx_strlen(cases[i].name) + 2;
        entry.key.data = ngx_pnalloc(pool, entry.key.len);
        tap_expect(entry.key.data != NULL);

        ngx_memcpy(entry.key.data, "e/", 2);
        ngx_memcpy(entry.key.data + 2, cases[i].name, entry.key.len - 2);

        entry.lease = cases[i].lease;

        tap_check((ngx_etcd_candidate_fault(&entry, 2) == NULL)
                  == (int) cases[i].candidate);
        tap_check(ngx_etcd_candidate_decimal(&entry.key, entry.lease, 2)
                  == cases[i].decimal);
    }
}


static void
test_candidate_values(ngx_pool_t *pool)
{
    ngx_etcd_mirror_entry_t  entry;

    ngx_memzero(&entry, sizeof(ngx_etcd_mirror_entry_t));

    entry.key = *tap_string(pool, "e/1a");
    entry.value.len = NGX_ETCD_CANDIDATE_MAX_VALUE;
    tap_check(ngx_etcd_candidate_fault(&entry, 2) == NULL);

    entry.value.len++;
    tap_check(ngx_etcd_candidate_fault(&entry, 2) != NULL);
}


ngx_etcd_tap_test_t  test_candidate[] = {
    { "candidate: names", test_candidate_names },
    { "candidate: values", test_candidate_values },
    { NULL, NULL }
};
