
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Functions that the tests of src/formats share.
 */


#ifndef _TEST_FORMATS_H_INCLUDED_
#define _TEST_FORMATS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_decode.h>
#include "ngx_etcd_tap.h"


/*
 * Decodes a value and returns what came of it: "ADDRESS wN fN cN tN sN pN",
 * with flags, for each member; "nothing", or "invalid: REASON".  The format
 * may be followed by parameters.
 */
ngx_str_t *test_decode(ngx_pool_t *pool, char *format, char *key,
    ngx_str_t *value);

/* Reads "FORMAT PARAMETER ..." of a prefix.  Returns NULL, or what is wrong. */
char *test_conf(ngx_pool_t *pool, char *format, char *prefix,
    ngx_etcd_member_conf_t *conf);

/* When memory is short, this is the only result besides the wanted one. */
#define test_decodes(pool, format, key, value, wanted)                        \
    test_decodes_bytes(pool, format, key, tap_string(pool, value), wanted)
#define test_decodes_bytes(pool, format, key, value, wanted)                  \
    do {                                                                      \
        ngx_str_t  *result = test_decode(pool, format, key, value);           \
                                                                              \
        if (test_alloc_failed()) {                                            \
            tap_text(result, "invalid: no memory");                           \
            return;                                                           \
        }                                                                     \
                                                                              \
        tap_text(result, wanted);                                             \
    } while (0)


#endif /* _TEST_FORMATS_H_INCLUDED_ */
