
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_str.h>
#include "ngx_etcd_tap.h"


static void
test_escape_texts(ngx_pool_t *pool)
{
    ngx_uint_t   i;

    static struct {
        char  *text;
        char  *escaped;
    } cases[] = {
        { "", "" },
        { "/services/api one~", "/services/api one~" },
        { "a\r\n[alert]", "a\\x0d\\x0a[alert]" },
        { "\x1f \x7f\x80\xff", "\\x1f \\x7f\\x80\\xff" },
        { "\xc3\xa4", "\\xc3\\xa4" },
        { "a\" is \"\\x0a", "a\\\" is \\\"\\\\x0a" },
        { NULL, NULL }
    };

    for (i = 0; cases[i].text != NULL; i++) {
        tap_text(ngx_etcd_shown(tap_string(pool, cases[i].text)),
                 cases[i].escaped);
    }

    tap_text(ngx_etcd_shown_bytes((u_char *) "a\0b", 3), "a\\x00b");
}


/* Every byte: the result is printable and as long as it has to be. */

static void
test_escape_bytes(ngx_pool_t *pool)
{
    u_char       byte, *p;
    ngx_str_t   *shown;
    ngx_uint_t   i;

    for (i = 0; i < 256; i++) {
        byte = (u_char) i;
        shown = ngx_etcd_shown_bytes(&byte, 1);

        tap_check(shown->len == ((i < 0x20 || i >= 0x7f) ? 4
                                 : (i == '"' || i == '\\') ? 2 : 1));

        for (p = shown->data; p < shown->data + shown->len; p++) {
            tap_check(*p >= 0x20 && *p < 0x7f);
        }

        tap_check(ngx_etcd_escape_has_control(&byte, 1)
                  == (i < 0x20 || i == 0x7f));
    }

    tap_check(ngx_etcd_escape_has_control((u_char *) "", 0) == 0);
    tap_check(ngx_etcd_escape_has_control((u_char *) "ab\x01", 2) == 0);
    tap_check(ngx_etcd_escape_has_control((u_char *) "ab\x01", 3) == 1);
}


/* The longest results fit, and the text is cut. */

static void
test_escape_limits(ngx_pool_t *pool)
{
    u_char     *end;
    ngx_str_t  *buf, *shown;
    char        text[NGX_ETCD_SHOWN_LEN + 1];

    ngx_memset(text, 'x', sizeof(text));

    shown = ngx_etcd_shown(tap_bytes(pool, text, sizeof(text) - 1));
    tap_check(shown->len == NGX_ETCD_SHOWN_LEN);

    shown = ngx_etcd_shown(tap_bytes(pool, text, sizeof(text)));
    tap_check(shown->len == NGX_ETCD_SHOWN_LEN + 3);
    tap_check(ngx_memcmp(shown->data + NGX_ETCD_SHOWN_LEN, "...", 3) == 0);

    /* the cut is before bytes that would be escaped */

    ngx_memset(text, 0xff, sizeof(text));

    buf = tap_bytes(pool, (char *) shown->data, NGX_ETCD_ESCAPED(4));
    end = ngx_etcd_escape(buf->data, tap_bytes(pool, text, 5), 4);

    tap_check(end == buf->data + buf->len);
    tap_text(buf, "\\xff\\xff\\xff\\xff...");

    end = ngx_etcd_escape(buf->data, tap_string(pool, "abc"), 0);
    tap_check(end - buf->data == 3);

    shown = ngx_etcd_shown(tap_bytes(pool, text, sizeof(text)));
    tap_check(shown->len == NGX_ETCD_ESCAPED(NGX_ETCD_SHOWN_LEN));
}


/* One line of the log may have several texts. */

static void
test_escape_slots(ngx_pool_t *pool)
{
    char         text[2];
    ngx_str_t   *shown[NGX_ETCD_SHOWN_SLOTS];
    ngx_uint_t   i;

    text[1] = '\0';

    for (i = 0; i < NGX_ETCD_SHOWN_SLOTS; i++) {
        text[0] = 'a' + i;
        shown[i] = ngx_etcd_shown(tap_string(pool, text));
    }

    for (i = 0; i < NGX_ETCD_SHOWN_SLOTS; i++) {
        text[0] = 'a' + i;
        tap_text(shown[i], text);
    }
}


ngx_etcd_tap_test_t  test_escape[] = {
    { "escape: texts", test_escape_texts },
    { "escape: each byte", test_escape_bytes },
    { "escape: the longest texts", test_escape_limits },
    { "escape: several texts", test_escape_slots },
    { NULL, NULL }
};
