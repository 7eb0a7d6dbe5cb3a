
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Certificates and keys: what is left of a value is a value of which the same
 * is left.  The input is the value.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_pem.h>
#include "fuzz.h"


int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    u_char     *first, *second, *scratch;
    size_t      room;
    ngx_str_t   value, again;

    if (size > 65536) {
        return 0;
    }

    room = NGX_ETCD_PEM_ROOM(NGX_ETCD_PEM_ROOM(size));

    first = malloc(room);
    second = malloc(room);
    scratch = malloc(room);

    fuzz_check(first != NULL && second != NULL && scratch != NULL);

    ngx_memcpy(first, data, size);

    value.data = first;
    value.len = size;

    if (ngx_etcd_pem_blocks(&value, NGX_ETCD_PEM_MAX_BITS, scratch) == NULL) {
        fuzz_check(value.len <= NGX_ETCD_PEM_ROOM(size));

        ngx_memcpy(second, value.data, value.len);

        again.data = second;
        again.len = value.len;

        fuzz_check(ngx_etcd_pem_blocks(&again, NGX_ETCD_PEM_MAX_BITS, scratch)
                   == NULL);
        fuzz_check(again.len == value.len);
        fuzz_check(ngx_memcmp(again.data, value.data, value.len) == 0);
    }

    free(first);
    free(second);
    free(scratch);

    return 0;
}
