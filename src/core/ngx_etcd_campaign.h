
/*
 * Copyright (C) nginx-etcd contributors
 *
 * What the "election" and "register" directives say, and what gates and
 * variables ask of an election.
 */


#ifndef _NGX_ETCD_CAMPAIGN_H_INCLUDED_
#define _NGX_ETCD_CAMPAIGN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_module.h>
#include <ngx_etcd_seat.h>


typedef struct {
    ngx_etcd_seat_kind_e       kind;
    ngx_str_t                  name;          /* of an election */
    ngx_str_t                  label;         /* for logs: what it is */
    ngx_str_t                  key;           /* or prefix without slash */
    ngx_str_t                  value;
    time_t                     ttl;           /* seconds */

    ngx_etcd_conf_t           *cluster;       /* NULL: only named so far */
    ngx_etcd_seat_t           *seat;
    ngx_uint_t                 id;            /* of the seat */
    u_char                    *file;          /* where it was named first */
    ngx_uint_t                 line;
} ngx_etcd_campaign_t;


extern ngx_module_t  ngx_etcd_campaign_module;


/*
 * The election of that name, which may be declared later in the file.  One
 * that is never declared fails the configuration, with the place of the first
 * use.  NULL: no memory.
 */
ngx_etcd_campaign_t *ngx_etcd_campaign_get(ngx_conf_t *cf, ngx_str_t *name);

/* everything is read; NGX_ERROR: an election is not declared */
ngx_int_t ngx_etcd_campaign_check(ngx_etcd_main_conf_t *emcf, ngx_log_t *log);

/*
 * The master, when the zone is there: finds or makes the seats; those of a
 * new zone take over what the old one, if there is one, has.
 */
ngx_int_t ngx_etcd_campaign_declare(ngx_etcd_conf_t *ecf,
    ngx_etcd_zone_t *old);


/* at run time; NULL: there is no such election */
ngx_etcd_campaign_t *ngx_etcd_campaign_find(ngx_str_t *name);

/* 1: this instance leads, at this very moment */
ngx_uint_t ngx_etcd_campaign_leads(ngx_etcd_campaign_t *campaign);

/*
 * The term of this instance, while it leads: the revision at which its key was
 * created, which every next term exceeds.  0: it does not lead.
 */
int64_t ngx_etcd_campaign_term(ngx_etcd_campaign_t *campaign);

/*
 * ms for which the leader's lease lasts even if it is renewed no more; of this
 * instance, for which it is sure to lead; -1: nobody leads, or it is not known.
 * Who asks this makes the owner of the zone ask etcd; the view is that of
 * ngx_etcd_campaign_leader().  For show.
 */
int64_t ngx_etcd_campaign_remaining(ngx_etcd_campaign_t *campaign,
    ngx_etcd_seat_view_t *view);

/*
 * Who leads, as far as is known: NGX_OK, or NGX_DECLINED: nobody does, or it
 * is too long ago that etcd was heard of.
 */
ngx_int_t ngx_etcd_campaign_leader(ngx_etcd_campaign_t *campaign,
    ngx_etcd_seat_view_t *view);


#endif /* _NGX_ETCD_CAMPAIGN_H_INCLUDED_ */
