
/*
 * Copyright (C) nginx-etcd contributors
 *
 * When the next of many members is checked: in a round, which takes about an
 * interval, each has its turn, at equal distances.  Pure arithmetic of ms.
 */


#ifndef _NGX_ETCD_CHECK_SCHEDULE_H_INCLUDED_
#define _NGX_ETCD_CHECK_SCHEDULE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


typedef struct {
    ngx_msec_t    begun;         /* of the round */
    ngx_msec_t    length;        /* of the round */
    ngx_uint_t    done;          /* turns of the round */
} ngx_etcd_check_schedule_t;


/*
 * Begins a round: it takes the interval, more or less up to "jitter" per cent
 * of it, as "random" says.  Rounds follow one another, but what is late is not
 * made up for.
 */
void ngx_etcd_check_schedule_round(ngx_etcd_check_schedule_t *schedule,
    ngx_msec_t now, ngx_msec_t interval, ngx_uint_t jitter,
    ngx_uint_t random);

/* Returns the ms until the next turn of n members; 0: it is due. */
ngx_msec_t ngx_etcd_check_schedule_wait(ngx_etcd_check_schedule_t *schedule,
    ngx_msec_t now, ngx_uint_t n);

/* Returns the ms until the round is over. */
ngx_msec_t ngx_etcd_check_schedule_left(ngx_etcd_check_schedule_t *schedule,
    ngx_msec_t now);


#endif /* _NGX_ETCD_CHECK_SCHEDULE_H_INCLUDED_ */
