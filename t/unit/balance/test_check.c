
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_check_result.h>
#include "test_world.h"


#define FAILED    NGX_ETCD_VERDICT_FAILED
#define UNPROVEN  NGX_ETCD_VERDICT_UNPROVEN


/* The turns of a round are at equal distances, the last one before its end. */

static void
test_check_turns(ngx_pool_t *pool)
{
    ngx_uint_t                 i;
    ngx_msec_t                 now;
    ngx_etcd_check_schedule_t  schedule;

    ngx_memzero(&schedule, sizeof(ngx_etcd_check_schedule_t));

    now = 12345;

    ngx_etcd_check_schedule_round(&schedule, now, 5000, 0, 77);
    tap_check(schedule.length == 5000);

    for (i = 0; i < 7; i++) {
        tap_check(ngx_etcd_check_schedule_wait(&schedule, now, 7)
                  == 5000 * i / 7);
        tap_check(ngx_etcd_check_schedule_wait(&schedule, now + 5000 * i / 7,
                                               7)
                  == 0);
        schedule.done++;
    }

    tap_check(ngx_etcd_check_schedule_wait(&schedule, now + 4999, 7) == 1);
    tap_check(ngx_etcd_check_schedule_left(&schedule, now + 4999) == 1);
    tap_check(ngx_etcd_check_schedule_left(&schedule, now + 5000) == 0);
    tap_check(ngx_etcd_check_schedule_left(&schedule, now + 99999) == 0);

    /* members that have gone meanwhile, and none */

    tap_check(ngx_etcd_check_schedule_wait(&schedule, now + 10, 3) == 4990);
    tap_check(ngx_etcd_check_schedule_wait(&schedule, now + 10, 0) == 4990);
}


/* Rounds follow one another, but a missed one is not made up for. */

static void
test_check_rounds(ngx_pool_t *pool)
{
    ngx_msec_t                 now;
    ngx_etcd_check_schedule_t  schedule;

    ngx_memzero(&schedule, sizeof(ngx_etcd_check_schedule_t));

    /* the clock of ms wraps in between */

    now = (ngx_msec_t) -1000;

    ngx_etcd_check_schedule_round(&schedule, now, 1000, 0, 0);
    ngx_etcd_check_schedule_round(&schedule, now + 1007, 1000, 0, 0);
    tap_check(schedule.begun == now + 1000 && schedule.done == 0);

    ngx_etcd_check_schedule_round(&schedule, now + 2999, 1000, 0, 0);
    tap_check(schedule.begun == now + 2000);

    ngx_etcd_check_schedule_round(&schedule, now + 4000, 1000, 0, 0);
    tap_check(schedule.begun == now + 4000);

    ngx_etcd_check_schedule_round(&schedule, now + 60000, 1000, 0, 0);
    tap_check(schedule.begun == now + 60000);
}


static void
test_check_jitter(ngx_pool_t *pool)
{
    ngx_uint_t                 i;
    ngx_msec_t                 least, most;
    ngx_etcd_check_schedule_t  schedule;

    least = NGX_MAX_INT32_VALUE;
    most = 0;

    ngx_memzero(&schedule, sizeof(ngx_etcd_check_schedule_t));

    for (i = 0; i < 2000; i++) {
        ngx_etcd_check_schedule_round(&schedule, 1, 5000, 10, i);
        least = ngx_min(least, schedule.length);
        most = ngx_max(most, schedule.length);
    }

    tap_check(least == 4500 && most == 5500);

    ngx_etcd_check_schedule_round(&schedule, 1, 10, 100, 0);
    tap_check(schedule.length == 1);

    ngx_etcd_check_schedule_round(&schedule, 1, 86400000, 100,
                                  NGX_MAX_UINT32_VALUE);
    tap_check(schedule.length <= 2 * 86400000);
}


/* A digit is the verdict after a failure (f) or a success (s). */

static void
test_check_verdicts(ngx_pool_t *pool)
{
    char                   *p;
    ngx_uint_t              i, verdict;
    ngx_etcd_check_row_t    row;
    ngx_etcd_check_conf_t   conf;

    static struct {
        ngx_uint_t    rises;
        ngx_uint_t    fails;
        ngx_uint_t    verdict;
        char         *results;
    } cases[] = {
        { 2, 3, 0, "s0f0f0s0f0f0f1f1s1f1s1s0s0f0" },
        { 1, 1, 0, "f1s0f1s0" },

        /* the first success proves, unless the member has failed */

        { 2, 3, UNPROVEN, "s0s0f0" },
        { 2, 3, UNPROVEN, "f2f2s0f0" },
        { 2, 3, UNPROVEN, "f2f2f3s3s0" },

        /* another process has found that it fails */

        { 2, 3, FAILED, "f1f1f1s1s0" },
        { 3, 3, FAILED, "s1s1f1s1s1s0" },
        { 0, 0, 0, NULL }
    };

    for (i = 0; cases[i].results != NULL; i++) {
        ngx_memzero(&row, sizeof(ngx_etcd_check_row_t));

        conf.rises = cases[i].rises;
        conf.fails = cases[i].fails;
        verdict = cases[i].verdict;

        for (p = cases[i].results; *p; p += 2) {
            verdict = ngx_etcd_check_result_count(&conf, &row, *p == 's',
                                                  verdict);
            tap_check(verdict == (ngx_uint_t) (p[1] - '0'));
        }
    }

    /* a row has no end */

    conf.rises = 2;
    conf.fails = 3;
    row.ok = 0;
    row.row = NGX_MAX_UINT32_VALUE;

    tap_check(ngx_etcd_check_result_count(&conf, &row, 0, 0) == FAILED);
    tap_check(row.row == NGX_MAX_UINT32_VALUE);
}


/* The newest result contradicts the verdict. */

static void
test_check_open(ngx_pool_t *pool)
{
    ngx_etcd_check_row_t  row;

    row.row = 1;

    row.ok = 0;
    tap_check(ngx_etcd_check_result_open(&row, 0));
    tap_check(ngx_etcd_check_result_open(&row, UNPROVEN));
    tap_check(!ngx_etcd_check_result_open(&row, FAILED));
    tap_check(!ngx_etcd_check_result_open(&row, FAILED|UNPROVEN));

    row.ok = 1;
    tap_check(!ngx_etcd_check_result_open(&row, 0));
    tap_check(ngx_etcd_check_result_open(&row, FAILED));
    tap_check(ngx_etcd_check_result_open(&row, FAILED|UNPROVEN));
}


static void
test_check_texts(ngx_pool_t *pool)
{
    u_char      buf[NGX_ETCD_CHECK_RESULT_TEXT];
    ngx_str_t   text;

    ngx_etcd_check_result_text(NGX_ETCD_CHECK_OK, 200, buf, &text);
    tap_text(&text, "ok");

    ngx_etcd_check_result_text(NGX_ETCD_CHECK_STATUS, 503, buf, &text);
    tap_text(&text, "status 503");

    ngx_etcd_check_result_text(NGX_ETCD_CHECK_GRPC_STATUS,
                               NGX_MAX_UINT32_VALUE, buf, &text);
    tap_text(&text, "grpc status 4294967295");

    ngx_etcd_check_result_text(NGX_ETCD_CHECK_NOT_SERVING, 0, buf, &text);
    tap_text(&text, "not serving");

    /* the zone of a later version */

    ngx_etcd_check_result_text(NGX_ETCD_CHECK_RESULTS, 0, buf, &text);
    tap_text(&text, "none");
}


/* A new member of a mandatory set is unproven from the beginning. */

static void
test_check_mandatory(ngx_pool_t *pool)
{
    ngx_etcd_slot_t        *slot;
    ngx_etcd_table_t       *table;
    ngx_etcd_member_set_t  *set;

    tap_expect(test_table_init(pool, "round_robin") == NGX_OK);

    table = &test_world.table;
    set = table->set;
    set->checks.mandatory = 1;

    test_table_add(0, 2, NULL);
    tap_expect(test_table_follow() == NGX_OK);

    slot = ngx_etcd_member_set_slot(set, 1);

    tap_check(ngx_etcd_counter_get(&slot->verdict, slot->uid) == UNPROVEN);
    tap_check(table->nmembers == 2 && !ngx_etcd_table_ready(table));

    tap_check(ngx_etcd_counter_bits(&slot->verdict, slot->uid, 0, UNPROVEN));
    tap_check(ngx_etcd_table_ready(table));
}


/* A worker reports a member of which a request has failed. */

static void
test_check_suspects(ngx_pool_t *pool)
{
    ngx_uint_t              n;
    ngx_etcd_slot_t        *slot;
    ngx_etcd_member_set_t  *set;

    tap_expect(test_table_init(pool, "round_robin") == NGX_OK);

    set = test_world.table.set;

    test_table_add(0, NGX_ETCD_MEMBER_SET_PIECE + 2, NULL);
    tap_expect(test_table_follow() == NGX_OK);

    n = NGX_ETCD_MEMBER_SET_PIECE + 1;
    slot = ngx_etcd_member_set_slot(set, n);

    /* without notes nothing is reported */

    ngx_etcd_member_set_suspect(set, slot, n, slot->uid);
    tap_check(ngx_etcd_member_set_suspects(set) == 0);
    tap_check(!ngx_etcd_member_set_suspected(set, n));

    (void) ngx_etcd_zone_claim(&test_world.zone, 0);

    tap_expect(ngx_etcd_member_set_annotate(&test_world.zone, set) == NGX_OK);
    tap_check(!ngx_etcd_member_set_suspected(set, n));

    ngx_etcd_member_set_suspect(set, slot, n, slot->uid);
    tap_check(ngx_etcd_member_set_suspects(set) == 2);
    tap_check(ngx_etcd_member_set_suspects(set) == 0);
    tap_check(!ngx_etcd_member_set_suspected(set, n - 1));
    tap_check(ngx_etcd_member_set_suspected(set, n));
    tap_check(!ngx_etcd_member_set_suspected(set, n));

    /* the request was to a former member of the slot */

    ngx_etcd_member_set_suspect(set, slot, n, slot->uid + 1);
    tap_check(ngx_etcd_member_set_suspects(set) == 0);
    tap_check(!ngx_etcd_member_set_suspected(set, n));
}


ngx_etcd_tap_test_t  test_check[] = {
    { "check: turns", test_check_turns },
    { "check: rounds", test_check_rounds },
    { "check: jitter", test_check_jitter },
    { "check: verdicts", test_check_verdicts },
    { "check: open", test_check_open },
    { "check: texts", test_check_texts },
    { "check: mandatory", test_check_mandatory },
    { "check: suspects", test_check_suspects },
    { NULL, NULL }
};
