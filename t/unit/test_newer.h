
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The order of registrations of an address: which of two shows, told from the
 * contract of ngx_etcd_slot_index_newest() alone.
 */


#ifndef _TEST_NEWER_H_INCLUDED_
#define _TEST_NEWER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_batch.h>


/* 1 if the first one shows; both have revisions that may be those to come */

static ngx_inline ngx_uint_t
test_newer(ngx_etcd_entry_t *one, uint64_t revision1, ngx_etcd_entry_t *two,
    uint64_t revision2)
{
    if (revision1 != revision2) {
        return revision1 > revision2;
    }

    return ngx_memn2cmp(ngx_etcd_entry_key(one), ngx_etcd_entry_key(two),
                        one->key_len, two->key_len)
           > 0;
}


#endif /* _TEST_NEWER_H_INCLUDED_ */
