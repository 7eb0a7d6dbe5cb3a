
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The cost of the decoder, as a directive:
 *
 *     etcd_decode_bench FORMAT KEY VALUE ROUNDS [PARAMETER ...];
 *
 * Writes "bench: A B C": the nanoseconds of a processor that it needed for one
 * value, those that parsing the value alone takes (0: it is no JSON), and how
 * many bytes of each round stay allocated.  Other words are as of etcd_decode.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <jansson.h>
#include <malloc.h>
#include <time.h>
#include "unit.h"


static ngx_int_t ngx_etcd_unit_round(ngx_etcd_member_conf_t *member,
    ngx_str_t *key, ngx_str_t *bytes, ngx_pool_t *pool);
static uint64_t ngx_etcd_unit_parse(ngx_str_t *bytes, ngx_int_t rounds);
static uint64_t ngx_etcd_unit_clock(void);


char *
ngx_etcd_unit_bench(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ssize_t                  used;
    u_char                  *p;
    u_char                   buf[256];
    uint64_t                 start, spent;
    ngx_int_t                rounds, n;
    ngx_str_t               *value, key, bytes;
    ngx_pool_t              *pool;
    ngx_etcd_member_conf_t   member;

    value = cf->args->elts;

    pool = ngx_create_pool(4096, cf->log);

    if (cf->args->nelts < 5
        || pool == NULL
        || ngx_etcd_unit_conf(cf, &member, 5) != NGX_OK
        || ngx_etcd_unit_bytes(&value[2], &key) != NGX_OK
        || ngx_etcd_unit_bytes(&value[3], &bytes) != NGX_OK)
    {
        return "has invalid arguments";
    }

    rounds = ngx_atoi(value[4].data, value[4].len);

    if (rounds < 1
        || ngx_etcd_unit_round(&member, &key, &bytes, pool) != NGX_OK)
    {
        return "has no rounds, or no memory";
    }

    used = mallinfo2().uordblks;
    start = ngx_etcd_unit_clock();

    for (n = 0; n < rounds; n++) {
        (void) ngx_etcd_unit_round(&member, &key, &bytes, pool);
    }

    spent = (ngx_etcd_unit_clock() - start) / rounds;

    /* the allocator's own lists may take some memory once, but not each time */

    used = ((ssize_t) mallinfo2().uordblks - used) / rounds;

    p = ngx_snprintf(buf, sizeof(buf), "bench: %uL %uL %z\n", spent,
                     ngx_etcd_unit_parse(&bytes, rounds), used);

    (void) ngx_write_fd(ngx_stdout, buf, p - buf);

    ngx_destroy_pool(pool);
    ngx_free(key.data);
    ngx_free(bytes.data);

    return NGX_CONF_OK;
}


/* decodes a value as the service does for every key */

static ngx_int_t
ngx_etcd_unit_round(ngx_etcd_member_conf_t *member, ngx_str_t *key,
    ngx_str_t *bytes, ngx_pool_t *pool)
{
    ngx_array_t        members;
    ngx_etcd_reason_t  reason;

    if (ngx_array_init(&members, pool, 1, sizeof(ngx_etcd_member_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    (void) ngx_etcd_decode(member, key, bytes, pool, &members,
                           &reason);
    ngx_reset_pool(pool);

    return NGX_OK;
}


static uint64_t
ngx_etcd_unit_parse(ngx_str_t *bytes, ngx_int_t rounds)
{
    json_t        *object;
    uint64_t       start;
    ngx_int_t      n;
    json_error_t   error;

    start = ngx_etcd_unit_clock();

    for (n = 0; n < rounds; n++) {
        object = json_loadb((char *) bytes->data, bytes->len,
                            JSON_REJECT_DUPLICATES, &error);
        if (object == NULL) {
            return 0;
        }

        json_decref(object);
    }

    return (ngx_etcd_unit_clock() - start) / rounds;
}


static uint64_t
ngx_etcd_unit_clock(void)
{
    struct timespec  ts;

    (void) clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);

    return (uint64_t) ts.tv_sec * 1000000000 + ts.tv_nsec;
}
