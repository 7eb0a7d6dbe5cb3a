
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A seat: what the instance holds in etcd by a lease, for an election or a
 * registration, and who is seen to lead.  Written by the owner of the zone,
 * read by every worker without a lock.
 */


#ifndef _NGX_ETCD_SEAT_H_INCLUDED_
#define _NGX_ETCD_SEAT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_zone.h>


#define NGX_ETCD_SEAT_MAX_KEY    1024
#define NGX_ETCD_SEAT_MAX_VALUE  4096


typedef enum {
    NGX_ETCD_SEAT_ELECTION = 0,
    NGX_ETCD_SEAT_REGISTRATION
} ngx_etcd_seat_kind_e;


/* what one owner leaves to the next one; all zero: nothing is held */

typedef struct {
    int64_t                          lease;
    uint64_t                         ttl;          /* ms */
    uint64_t                         deadline;     /* ngx_etcd_clock() */
    int64_t                          created;      /* revision of its key */
} ngx_etcd_seat_hold_t;


/* the leader, as seen at a revision of etcd */

typedef struct {
    int64_t                          revision;
    int64_t                          created;      /* 0: there is none */
    uint64_t                         expires;      /* its lease, unless it is
                                                      renewed,
                                                      ngx_etcd_clock(); 0: not
                                                      known */
    uint32_t                         key_len;
    uint32_t                         value_len;
    u_char                           key[NGX_ETCD_SEAT_MAX_KEY];
    u_char                           value[NGX_ETCD_SEAT_MAX_VALUE];
} ngx_etcd_seat_view_t;


typedef struct {
    ngx_queue_t                      queue;
    ngx_atomic_t                     id;           /* 0: vacated */
    uint32_t                         epoch;        /* last declared by */
    ngx_etcd_seat_kind_e             kind;
    ngx_str_t                        key;          /* or prefix */

    ngx_etcd_seat_hold_t             hold;         /* under the mutex */

    ngx_etcd_word_t                  until;        /* the instance leads up to
                                                      then, ngx_etcd_clock();
                                                      0: it does not */
    int64_t                          term;         /* the last leader's */
    ngx_etcd_word_t                  leaders;      /* how many were seen */
    ngx_etcd_word_t                  asked;        /* when somebody last wanted
                                                      to know view.expires,
                                                      ngx_etcd_clock() */
    ngx_etcd_word_t                  sequence;     /* odd: it is written */
    ngx_etcd_seat_view_t             view;
} ngx_etcd_seat_t;


/*
 * The master: finds or makes the seat.  NULL: the zone is too small, or its
 * mutex is held.
 */
ngx_etcd_seat_t *ngx_etcd_seat_declare(ngx_etcd_zone_t *zone,
    ngx_etcd_seat_kind_e kind, ngx_str_t *key);

/*
 * The master: fills a seat that was just made with what its like in another
 * zone holds (that of the configuration before, which had another size).
 */
ngx_int_t ngx_etcd_seat_inherit(ngx_etcd_zone_t *zone, ngx_etcd_seat_t *seat,
    ngx_etcd_zone_t *from);

/*
 * The owner: gives back the seats that its configuration does not have.  The
 * handler is told of what is still held there.  NGX_OK or NGX_AGAIN.
 */
ngx_int_t ngx_etcd_seat_vacate_old(ngx_etcd_zone_t *zone,
    void (*handler)(void *data, ngx_etcd_seat_hold_t *hold), void *data);

/* 1 if there is a seat to be given back */
ngx_uint_t ngx_etcd_seat_old(ngx_etcd_zone_t *zone);


/* the owner; NGX_OK, NGX_AGAIN, or NGX_DECLINED: it is not the owner */

ngx_int_t ngx_etcd_seat_load(ngx_etcd_zone_t *zone, ngx_etcd_seat_t *seat,
    ngx_etcd_seat_hold_t *hold);
ngx_int_t ngx_etcd_seat_store(ngx_etcd_zone_t *zone, ngx_etcd_seat_t *seat,
    ngx_etcd_seat_hold_t *hold);
ngx_int_t ngx_etcd_seat_show(ngx_etcd_zone_t *zone, ngx_etcd_seat_t *seat,
    ngx_etcd_seat_view_t *view);

/*
 * The owner: sets "until" if it is still *known, the value that the owner
 * wrote last, or read when it became the owner.  NGX_OK: it is set.
 * NGX_DECLINED: another process has written it in between; *known is now what
 * that process wrote.  The caller may try again only after it has found that
 * it still owns the zone.
 */
ngx_int_t ngx_etcd_seat_extend(ngx_etcd_seat_t *seat, uint64_t *known,
    uint64_t until);


/* any worker; the seat is that of the id, or nothing is held */

uint64_t ngx_etcd_seat_until(ngx_etcd_seat_t *seat, ngx_uint_t id);

/* the owner is to find out when the leader's lease expires */

#define ngx_etcd_seat_ask(seat, now)                                          \
    __atomic_store_n(&(seat)->asked, now, __ATOMIC_RELAXED)

/*
 * The create revision of the leader's key, if that is the instance's own; 0: it
 * is not, or nothing can be said now.
 */
int64_t ngx_etcd_seat_term(ngx_etcd_seat_t *seat, ngx_uint_t id);

/* NGX_OK, or NGX_DECLINED: nothing can be said now */
ngx_int_t ngx_etcd_seat_view(ngx_etcd_seat_t *seat, ngx_uint_t id,
    ngx_etcd_seat_view_t *view);


#endif /* _NGX_ETCD_SEAT_H_INCLUDED_ */
