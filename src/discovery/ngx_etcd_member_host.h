
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The host names that members have, as a list: of a key, or of a selection.
 * A list is made anew by ngx_etcd_member_host_mark(), a call of
 * ngx_etcd_member_host_get() for each member, and ngx_etcd_member_host_sweep().
 */


#ifndef _NGX_ETCD_MEMBER_HOST_H_INCLUDED_
#define _NGX_ETCD_MEMBER_HOST_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_member.h>
#include <ngx_etcd_resolver.h>


typedef struct ngx_etcd_member_host_s  ngx_etcd_member_host_t;


struct ngx_etcd_member_host_s {
    ngx_etcd_resolver_use_t         use;        /* first; its handler is the
                                                   owner's */
    ngx_etcd_member_host_t         *next;
    void                           *owner;      /* the owner's */
    in_port_t                       port;
    ngx_etcd_member_attr_t          attr;       /* of the last get() */
    ngx_etcd_resolver_address_t     sole;       /* the address that is used,
                                                   where it is one of them;
                                                   socklen 0: none yet */
    unsigned                        seen:1;
};


/* none of them is seen */
void ngx_etcd_member_host_mark(ngx_etcd_member_host_t *hosts);

/*
 * The name and port of a member, found in the list, or new: it is seen.  NULL:
 * no memory.
 */
ngx_etcd_member_host_t *ngx_etcd_member_host_get(
    ngx_etcd_resolver_t *resolver, ngx_etcd_member_host_t **hosts,
    ngx_etcd_member_t *member, ngx_log_t *log);

/* those that were not seen are freed, and use their names no more */
void ngx_etcd_member_host_sweep(ngx_etcd_member_host_t **hosts);

/*
 * One address of an answer that has any: the one that was used before, while it
 * is in there.
 */
ngx_etcd_resolver_address_t *ngx_etcd_member_host_sole(
    ngx_etcd_member_host_t *host, ngx_etcd_resolver_answer_t *answer);


#endif /* _NGX_ETCD_MEMBER_HOST_H_INCLUDED_ */
