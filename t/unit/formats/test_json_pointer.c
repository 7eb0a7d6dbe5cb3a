
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_json.h>
#include "ngx_etcd_tap.h"


/* the examples of RFC 6901, section 5, and pointers to nothing */

static void
test_json_pointer_get(ngx_pool_t *pool)
{
    json_t      *root, *value;
    ngx_uint_t   i;

    static struct {
        char  *pointer;
        int    value;             /* -1: there is none */
    } cases[] = {
        { "/foo/0", 9 }, { "/foo/1", 10 }, { "/", 0 }, { "/a~1b", 1 },
        { "/c%d", 2 }, { "/e^f", 3 }, { "/ ", 7 }, { "/m~0n", 8 },
        { "/foo/2", -1 }, { "/foo/01", -1 }, { "/foo/-", -1 },
        { "/foo/", -1 }, { "/foo/18446744073709551616", -1 },
        { "/foo/0/0", -1 }, { "/m", -1 }, { "//", -1 }, { NULL, 0 }
    };

    root = json_loads("{\"foo\":[9,10],\"\":0,\"a/b\":1,\"c%d\":2,"
                      "\"e^f\":3,\" \":7,\"m~n\":8}", 0, NULL);

    tap_check(ngx_etcd_json_pointer_get(root, tap_string(pool, "")) == root);

    for (i = 0; cases[i].pointer != NULL; i++) {
        value = ngx_etcd_json_pointer_get(root,
                                          tap_string(pool, cases[i].pointer));

        tap_check((value == NULL) == (cases[i].value == -1));
        tap_check(value == NULL
                  || json_integer_value(value) == cases[i].value);
    }

    json_decref(root);
}


static void
test_json_pointer_check(ngx_pool_t *pool)
{
    char  longest[NGX_ETCD_JSON_POINTER_MAX + 1];

    tap_check(ngx_etcd_json_pointer_check(tap_string(pool, "")) == NULL);
    tap_check(ngx_etcd_json_pointer_check(tap_string(pool, "/~0~1/a"))
              == NULL);
    tap_check(ngx_etcd_json_pointer_check(tap_string(pool, "a")) != NULL);
    tap_check(ngx_etcd_json_pointer_check(tap_string(pool, "/~")) != NULL);
    tap_check(ngx_etcd_json_pointer_check(tap_string(pool, "/~2")) != NULL);

    ngx_memset(longest, '/', sizeof(longest));

    tap_check(ngx_etcd_json_pointer_check(
                  tap_bytes(pool, longest, sizeof(longest) - 1))
              == NULL);
    tap_check(ngx_etcd_json_pointer_check(
                  tap_bytes(pool, longest, sizeof(longest)))
              != NULL);
}


static void
test_json_pointer_begins(ngx_pool_t *pool)
{
    ngx_str_t   rest, *pointer;
    ngx_uint_t  i;

    static struct {
        char  *pointer;
        char  *name;
        char  *rest;              /* NULL: another name */
    } cases[] = {
        { "/a/b", "a", "/b" }, { "/a", "a", "" }, { "/a/b", "ab", NULL },
        { "/ab", "a", NULL }, { "/~1~0/x", "/~", "/x" }, { "/", "", "" },
        { "//x", "", "/x" }, { "/a", "", NULL }, { NULL, NULL, NULL }
    };

    for (i = 0; cases[i].pointer != NULL; i++) {
        pointer = tap_string(pool, cases[i].pointer);

        tap_check(ngx_etcd_json_pointer_begins(pointer,
                                               (u_char *) cases[i].name,
                                               ngx_strlen(cases[i].name),
                                               &rest)
                  == (cases[i].rest != NULL));

        if (cases[i].rest != NULL) {
            tap_text(&rest, cases[i].rest);
        }
    }
}


ngx_etcd_tap_test_t  test_json_pointer[] = {
    { "JSON pointer: values", test_json_pointer_get },
    { "JSON pointer: what is valid", test_json_pointer_check },
    { "JSON pointer: the first step", test_json_pointer_begins },
    { NULL, NULL }
};
