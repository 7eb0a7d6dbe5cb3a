
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The host names of the members of a key, or of a selection, as a list.  To
 * update the list call ngx_etcd_member_host_mark(), then
 * ngx_etcd_member_host_get() for each member, then
 * ngx_etcd_member_host_sweep().
 */


#ifndef _NGX_ETCD_MEMBER_HOST_H_INCLUDED_
#define _NGX_ETCD_MEMBER_HOST_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_member.h>
#include <ngx_etcd_resolver.h>


typedef struct ngx_etcd_member_host_s  ngx_etcd_member_host_t;


struct ngx_etcd_member_host_s {
    ngx_etcd_resolver_use_t         use;        /* must be the first field;
                                                   the owner sets its handler */
    ngx_etcd_member_host_t         *next;
    void                           *owner;      /* used by the handler */
    in_port_t                       port;
    ngx_etcd_member_attr_t          attr;       /* of the last get() */
    ngx_etcd_route_t                route;      /* the same */
    ngx_etcd_resolver_address_t     sole;       /* the address in use, if it
                                                   is one of the host's;
                                                   socklen 0: none yet */
    unsigned                        seen:1;
};


/* Marks all hosts as unseen. */
void ngx_etcd_member_host_mark(ngx_etcd_member_host_t *hosts);

/*
 * Finds or adds the host name and port of a member, and marks it as seen.
 * NULL: no memory.
 */
ngx_etcd_member_host_t *ngx_etcd_member_host_get(
    ngx_etcd_resolver_t *resolver, ngx_etcd_member_host_t **hosts,
    ngx_etcd_member_t *member, ngx_log_t *log);

/* Frees the hosts that were not seen. */
void ngx_etcd_member_host_sweep(ngx_etcd_member_host_t **hosts);

/*
 * Returns one address of an answer that has at least one: the address that was
 * used before, if the answer has it.
 */
ngx_etcd_resolver_address_t *ngx_etcd_member_host_sole(
    ngx_etcd_member_host_t *host, ngx_etcd_resolver_answer_t *answer);


#endif /* _NGX_ETCD_MEMBER_HOST_H_INCLUDED_ */
