
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_json.h>
#include "ngx_etcd_tap.h"


/* the limits of each length, RFC 3629 */

static void
test_utf8_valid(ngx_pool_t *pool)
{
    ngx_str_t   *text;
    ngx_uint_t   i;

    static struct {
        char        *text;
        ngx_uint_t   valid;
    } cases[] = {
        { "", 1 }, { "a\x7f", 1 }, { "\xc2\x80\xdf\xbf", 1 },
        { "\xe0\xa0\x80\xef\xbf\xbf", 1 }, { "\xed\x9f\xbf\xee\x80\x80", 1 },
        { "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 1 },
        { "\x80", 0 }, { "\xbf", 0 }, { "\xc0\x80", 0 }, { "\xc1\xbf", 0 },
        { "\xe0\x9f\xbf", 0 }, { "\xed\xa0\x80", 0 }, { "\xed\xbf\xbf", 0 },
        { "\xf0\x8f\xbf\xbf", 0 }, { "\xf4\x90\x80\x80", 0 },
        { "\xf5\x80\x80\x80", 0 }, { "\xff", 0 }, { "a\xc3", 0 },
        { "\xe2\x82", 0 }, { "\xf0\x9f\x98", 0 }, { "\xc3\xc3", 0 },
        { "\xe2\x82z", 0 }, { NULL, 0 }
    };

    for (i = 0; cases[i].text != NULL; i++) {
        text = tap_string(pool, cases[i].text);

        tap_check(ngx_etcd_utf8_valid(text->data, text->data + text->len)
                  == cases[i].valid);
    }
}


ngx_etcd_tap_test_t  test_utf8[] = {
    { "UTF-8: what is valid", test_utf8_valid },
    { NULL, NULL }
};
