
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Members that are numbers, as an agent would write them into a set: number n
 * is in slot n.
 */


#ifndef _NGX_ETCD_UNIT_MEMBERS_H_INCLUDED_
#define _NGX_ETCD_UNIT_MEMBERS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_member.h>
#include <ngx_etcd_member_set.h>
#include <ngx_etcd_table.h>


/* n of them; values are as in unit_balance.c */
ngx_int_t ngx_etcd_unit_add(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_uint_t from, ngx_uint_t n, ngx_str_t *value, ngx_uint_t nvalues);
ngx_int_t ngx_etcd_unit_remove(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, ngx_uint_t from, ngx_uint_t n);

void ngx_etcd_unit_grow(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set);
/* if a worker, and the master, get the mutex of another process in time */
void ngx_etcd_unit_held(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_uint_t msec);

/* unit_address.c: 1 if the command is one of its own */
ngx_uint_t ngx_etcd_unit_address(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, ngx_pool_t *pool, ngx_str_t *value,
    ngx_uint_t *arg);

/* unit_ring.c: what "ring" prints */
void ngx_etcd_unit_ring(ngx_etcd_table_t *table);

/* unit_step.c: what "steps", "some" and "call" print */
void ngx_etcd_unit_steps(ngx_etcd_table_t *table);
void ngx_etcd_unit_some(ngx_etcd_table_t *table, ngx_uint_t n);
void ngx_etcd_unit_call(ngx_etcd_table_t *table, u_char *how);


#endif /* _NGX_ETCD_UNIT_MEMBERS_H_INCLUDED_ */
