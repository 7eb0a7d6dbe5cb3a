
/*
 * Copyright (C) nginx-etcd contributors
 */


/* what is tested allocates by the functions below, see Makefile */

#undef ngx_alloc
#undef ngx_calloc
#undef ngx_palloc
#undef ngx_pcalloc
#undef ngx_pnalloc
#undef ngx_array_push

#include <ngx_config.h>
#include <ngx_core.h>
#include "test_module.h"
#include "ngx_etcd_tap.h"


void *ngx_etcd_tap_alloc(size_t size, ngx_log_t *log);
void *ngx_etcd_tap_calloc(size_t size, ngx_log_t *log);
void *ngx_etcd_tap_palloc(ngx_pool_t *pool, size_t size);
void *ngx_etcd_tap_pcalloc(ngx_pool_t *pool, size_t size);
void *ngx_etcd_tap_pnalloc(ngx_pool_t *pool, size_t size);
void *ngx_etcd_tap_array_push(ngx_array_t *a);

static char *ngx_etcd_tap(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
static ngx_uint_t ngx_etcd_tap_test(ngx_etcd_tap_test_t *test,
    ngx_log_t *log);
static void ngx_etcd_tap_run(ngx_etcd_tap_test_t *test, ngx_uint_t failing,
    ngx_log_t *log);
static ngx_uint_t ngx_etcd_tap_fails(void);
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


static struct {
    ngx_uint_t  failing;          /* number of the allocation; 0: none */
    ngx_uint_t  allocations;
    ngx_uint_t  failed;           /* checks */
} ngx_etcd_tap_state;


static char *
ngx_etcd_tap(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_uint_t             n, failed;
    ngx_etcd_tap_test_t   *test, **table;

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

    return failed ? "failed" : NGX_CONF_OK;
}


/* Returns 1 if all runs of the test were good. */

static ngx_uint_t
ngx_etcd_tap_test(ngx_etcd_tap_test_t *test, ngx_log_t *log)
{
    ngx_uint_t  failing;

    ngx_etcd_tap_state.failed = 0;

    for (failing = 0; /* void */ ; failing++) {
        ngx_etcd_tap_run(test, failing, log);

        if (ngx_etcd_tap_state.failed) {
            break;
        }

        /* the test had fewer allocations */

        if (failing != 0 && !ngx_etcd_tap_starved()) {
            return 1;
        }
    }

    if (failing != 0) {
        ngx_etcd_tap_print("# allocation %ui had failed\n", failing);
    }

    return 0;
}


static void
ngx_etcd_tap_run(ngx_etcd_tap_test_t *test, ngx_uint_t failing,
    ngx_log_t *log)
{
    ngx_pool_t  *pool;

    pool = ngx_create_pool(4096, log);

    if (pool == NULL) {
        ngx_etcd_tap_fail("pool != NULL", __FILE__, __LINE__);
        return;
    }

    ngx_etcd_tap_state.failing = failing;
    ngx_etcd_tap_state.allocations = 0;

    test->run(pool);

    ngx_etcd_tap_state.failing = failing;

    ngx_destroy_pool(pool);
}


ngx_uint_t
ngx_etcd_tap_starved(void)
{
    return ngx_etcd_tap_state.failing != 0
           && ngx_etcd_tap_state.allocations >= ngx_etcd_tap_state.failing;
}


void
ngx_etcd_tap_fail(char *what, char *file, int line)
{
    ngx_etcd_tap_state.failed = 1;

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

    cln = ngx_pool_cleanup_add(pool, sizeof(ngx_str_t));

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


static ngx_uint_t
ngx_etcd_tap_fails(void)
{
    return ++ngx_etcd_tap_state.allocations == ngx_etcd_tap_state.failing;
}


void *
ngx_etcd_tap_alloc(size_t size, ngx_log_t *log)
{
    return ngx_etcd_tap_fails() ? NULL : ngx_alloc(size, log);
}


void *
ngx_etcd_tap_calloc(size_t size, ngx_log_t *log)
{
    return ngx_etcd_tap_fails() ? NULL : ngx_calloc(size, log);
}


void *
ngx_etcd_tap_palloc(ngx_pool_t *pool, size_t size)
{
    return ngx_etcd_tap_fails() ? NULL : ngx_palloc(pool, size);
}


void *
ngx_etcd_tap_pcalloc(ngx_pool_t *pool, size_t size)
{
    return ngx_etcd_tap_fails() ? NULL : ngx_pcalloc(pool, size);
}


void *
ngx_etcd_tap_pnalloc(ngx_pool_t *pool, size_t size)
{
    return ngx_etcd_tap_fails() ? NULL : ngx_pnalloc(pool, size);
}


void *
ngx_etcd_tap_array_push(ngx_array_t *a)
{
    return ngx_etcd_tap_fails() ? NULL : ngx_array_push(a);
}
