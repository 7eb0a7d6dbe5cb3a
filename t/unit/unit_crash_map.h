
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The part of the crash test that concerns keys with variables: a set map and
 * a value map, what is done in there, and what must be true of them.
 */


#ifndef _NGX_ETCD_UNIT_CRASH_MAP_H_INCLUDED_
#define _NGX_ETCD_UNIT_CRASH_MAP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_zone.h>


#define NGX_ETCD_CRASH_MAP_NAMES  5          /* of sets, and of values */


/* the maps as workers find them: before an operation, or after it */

typedef struct {
    ngx_uint_t                 sets[NGX_ETCD_CRASH_MAP_NAMES];  /* 0, 1 */
    uint64_t                   values[NGX_ETCD_CRASH_MAP_NAMES]; /* hashes */
    uint64_t                   refused[NGX_ETCD_CRASH_MAP_NAMES];
    uint64_t                   requests;     /* of all sets, also former ones */
} ngx_etcd_crash_map_state_t;


/* maps with something in them */
ngx_int_t ngx_etcd_crash_map_world(ngx_etcd_zone_t *zone);

/* the state that can be seen now */
void ngx_etcd_crash_map_look(ngx_etcd_crash_map_state_t *state);

/* The next owner takes the maps over, and lists. */
void ngx_etcd_crash_map_take_over(void);
void ngx_etcd_crash_map_catch_up(void);

/*
 * The condition at any time: a worker sees the state before or the state
 * after.  "whole": it sees the state after.
 */
void ngx_etcd_crash_map_readers(char *when, ngx_uint_t whole);

/* the condition of the lists, once the zone has an owner again */
void ngx_etcd_crash_map_invariants(void);


/* operations */
void ngx_etcd_crash_set_add(void);
void ngx_etcd_crash_set_remove(void);
void ngx_etcd_crash_map_declare(void);
void ngx_etcd_crash_map_declare_values(void);
void ngx_etcd_crash_map_retire(void);
void ngx_etcd_crash_values(void);
void ngx_etcd_crash_values_twice(void);
void ngx_etcd_crash_values_retire(void);


#endif /* _NGX_ETCD_UNIT_CRASH_MAP_H_INCLUDED_ */
