
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The world of the tests of tables: one set in a zone of one process, its
 * table, and requests that pick peers.
 */


#ifndef _TEST_WORLD_H_INCLUDED_
#define _TEST_WORLD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_balance.h>
#include <ngx_etcd_pick.h>
#include <ngx_etcd_wait_queue.h>
#include "ngx_etcd_tap.h"
#include "../unit_members.h"


#define TEST_TABLE_WAITS  200
#define TEST_TABLE_NONE   -1


typedef struct {
    ngx_etcd_zone_t                zone;
    ngx_etcd_member_set_t         *set;
    ngx_etcd_table_t               table;
    ngx_etcd_table_conf_t          conf;
    ngx_uint_t                     made;
    ngx_time_t                     time;
    volatile ngx_time_t           *former;
    ngx_pool_t                    *pool;
    ngx_str_t                      name;

    ngx_etcd_wait_queue_entry_t    waits[TEST_TABLE_WAITS];
    ngx_uint_t                     woken[TEST_TABLE_WAITS];
    ngx_uint_t                     nwoken;
    ngx_uint_t                     closed;
} test_world_t;


extern test_world_t  test_world;


/* An empty set in a zone of its own, and its table with this method. */
ngx_int_t test_table_init(ngx_pool_t *pool, char *text);

/* Adds n members from this number on, with a parameter or NULL. */
void test_table_add(ngx_uint_t from, ngx_uint_t n, char *parameter);

void test_table_remove(ngx_uint_t from, ngx_uint_t n);

/* Follows the set; memory is short once at the most. */
ngx_int_t test_table_follow(void);

/* Picks one peer: its number, or -1. */
ngx_int_t test_table_pick(ngx_etcd_pick_t *pick, ngx_str_t *key);

/* Ends the use of the peer. */
void test_table_end(ngx_etcd_pick_t *pick, ngx_uint_t state);

/* How many of n requests each of the first eight peers gets. */
void test_table_count(ngx_uint_t n, ngx_uint_t *counts);


#endif /* _TEST_WORLD_H_INCLUDED_ */
