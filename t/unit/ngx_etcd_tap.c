
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "test_module.h"
#include "ngx_etcd_tap.h"


static char *ngx_etcd_tap(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
static ngx_uint_t ngx_etcd_tap_test(ngx_etcd_tap_test_t *test,
    ngx_log_t *log);
static ngx_uint_t ngx_etcd_tap_run(ngx_etcd_tap_test_t *test,
    ngx_uint_t failing, ngx_log_t *log);
static void ngx_etcd_tap_print(char *fmt, ...);


static ngx_command_t  ngx_etcd_tap_commands[] = {

    { ngx_string("etcd_tap"),
      NGX_MAIN_CONF|NGX_DIRECT_CONF|NGX_CONF_NOARGS,
      ngx_etcd_tap,
      0,
      0,
      NULL },

      ngx_null_command
};


test_module(ngx_etcd_tap_module, ngx_etcd_tap_commands);


static ngx_uint_t  ngx_etcd_tap_failed;         /* checks of a test */


static char *
ngx_etcd_tap(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_uint_t             n, failed, level;
    ngx_etcd_tap_test_t   *test, **table;

    /* failures are logged, as they are meant to be */

    level = cf->log->log_level;
    cf->log->log_level = NGX_LOG_STDERR;

    n = 0;

    for (table = ngx_etcd_tap_tables; *table != NULL; table++) {
        for (test = *table; test->name != NULL; test++) {
            n++;
        }
    }

    ngx_etcd_tap_print("1..%ui\n", n);

    n = 0;
    failed = 0;

    for (table = ngx_etcd_tap_tables; *table != NULL; table++) {
        for (test = *table; test->name != NULL; test++) {

            if (ngx_etcd_tap_test(test, cf->log)) {
                ngx_etcd_tap_print("ok %ui - %s\n", ++n, test->name);
                continue;
            }

            ngx_etcd_tap_print("not ok %ui - %s\n", ++n, test->name);
            failed = 1;
        }
    }

    cf->log->log_level = level;

    return failed ? "failed" : NGX_CONF_OK;
}


/* Returns 1 if all runs of the test were good. */

static ngx_uint_t
ngx_etcd_tap_test(ngx_etcd_tap_test_t *test, ngx_log_t *log)
{
    ngx_uint_t  failing, complete;

    ngx_etcd_tap_failed = 0;

    for (failing = 0; /* void */ ; failing++) {
        complete = ngx_etcd_tap_run(test, failing, log);

        if (ngx_etcd_tap_failed) {
            break;
        }

        /* the test had fewer allocations */

        if (failing != 0 && complete) {
            return 1;
        }
    }

    if (failing != 0) {
        ngx_etcd_tap_print("# allocation %ui had failed\n", failing);
    }

    return 0;
}


/* Returns 1 if no allocation has failed. */

static ngx_uint_t
ngx_etcd_tap_run(ngx_etcd_tap_test_t *test, ngx_uint_t failing,
    ngx_log_t *log)
{
    ngx_uint_t   complete;
    ngx_pool_t  *pool;

    test_alloc_forget();

    pool = ngx_create_pool(4096, log);

    if (pool == NULL) {
        ngx_etcd_tap_fail("pool != NULL", __FILE__, __LINE__);
        return 0;
    }

    test_alloc_fail(failing);

    test->run(pool);

    complete = !test_alloc_failed();

    test_alloc_fail(0);

    ngx_destroy_pool(pool);

    if (test_alloc_left() != 0 && !ngx_etcd_tap_failed) {
        ngx_etcd_tap_fail("memory is left", __FILE__, __LINE__);
    }

    return complete;
}


void
ngx_etcd_tap_fail(char *what, char *file, int line)
{
    ngx_etcd_tap_failed = 1;

    ngx_etcd_tap_print("# %s:%d: %s\n", file, line, what);
}


ngx_uint_t
ngx_etcd_tap_same(ngx_str_t *text, char *wanted, char *file, int line)
{
    if (text->len == ngx_strlen(wanted)
        && ngx_strncmp(text->data, wanted, text->len) == 0)
    {
        return 1;
    }

    ngx_etcd_tap_fail("the text is another one", file, line);
    ngx_etcd_tap_print("# is:     %V\n# wanted: %s\n", text, wanted);

    return 0;
}


ngx_str_t *
ngx_etcd_tap_bytes(ngx_pool_t *pool, char *bytes, size_t len)
{
    ngx_str_t           *text;
    ngx_pool_cleanup_t  *cln;

    test_alloc_pause();
    cln = ngx_pool_cleanup_add(pool, sizeof(ngx_str_t));
    test_alloc_resume();

    if (cln == NULL) {
        abort();
    }

    text = cln->data;
    text->len = len;
    text->data = malloc(ngx_max(len, 1));

    if (text->data == NULL) {
        abort();
    }

    ngx_memcpy(text->data, bytes, len);

    cln->handler = free;
    cln->data = text->data;

    return text;
}


ngx_str_t *
ngx_etcd_tap_string(ngx_pool_t *pool, char *string)
{
    return ngx_etcd_tap_bytes(pool, string, ngx_strlen(string));
}


static void
ngx_etcd_tap_print(char *fmt, ...)
{
    u_char   *p;
    u_char    buf[NGX_MAX_ERROR_STR];
    va_list   args;

    va_start(args, fmt);
    p = ngx_vslprintf(buf, buf + sizeof(buf), fmt, args);
    va_end(args);

    (void) ngx_write_fd(ngx_stdout, buf, p - buf);
}
