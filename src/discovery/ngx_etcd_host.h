
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The host names that members of a service have, and the addresses that are
 * known of them: each name is asked for once, however many keys use it, and
 * again when the answer is not valid any more.  Nothing here ever waits.
 */


#ifndef _NGX_ETCD_HOST_H_INCLUDED_
#define _NGX_ETCD_HOST_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_member.h>


#define NGX_ETCD_HOST_ADDRESSES  64      /* of a name: the lowest ones */
#define NGX_ETCD_HOST_ASKING     64      /* names at a time */

/* ms until a name is asked for again: however short its TTL, and after a
   failure, which is twice as long after each further one */

#define NGX_ETCD_HOST_AGAIN      1000
#define NGX_ETCD_HOST_RETRY      1000
#define NGX_ETCD_HOST_MAX_RETRY  10000


typedef struct ngx_etcd_hosts_s  ngx_etcd_hosts_t;
typedef struct ngx_etcd_host_s   ngx_etcd_host_t;
typedef struct ngx_etcd_use_s    ngx_etcd_use_t;
typedef struct ngx_etcd_key_s    ngx_etcd_key_t;


/* the port is not set */

typedef struct {
    ngx_sockaddr_t               sockaddr;
    socklen_t                    socklen;
} ngx_etcd_host_address_t;


/* of a name: sorted, none of them twice */

typedef struct {
    ngx_etcd_host_address_t     *elts;
    ngx_uint_t                   n;
    ngx_uint_t                   refused;      /* others that may not be used */
    ngx_uint_t                   beyond;       /* and that are too many */
} ngx_etcd_host_addresses_t;


/* a key has a member at that name and port, with these attributes */

struct ngx_etcd_use_s {
    ngx_queue_t                  queue;        /* of the name */
    ngx_etcd_use_t              *next;         /* of the key */
    ngx_etcd_host_t             *host;
    ngx_etcd_key_t              *key;
    in_port_t                    port;
    ngx_etcd_member_attr_t       attr;
    ngx_uint_t                   seen;
};


/*
 * Memory is from the pool; changed() is called with every key that uses a name
 * whose addresses, how many others are not used, or the reason why there are
 * none, are others now.
 */
ngx_etcd_hosts_t *ngx_etcd_hosts_create(ngx_etcd_member_conf_t *conf,
    ngx_str_t *upstream, ngx_pool_t *pool,
    void (*changed)(void *data, ngx_etcd_key_t *key), void *data,
    ngx_log_t *log);

/*
 * The use of a member's name and port by a key, found among its uses, or new:
 * it is seen.  NULL: no memory.
 */
ngx_etcd_use_t *ngx_etcd_host_use(ngx_etcd_hosts_t *hosts,
    ngx_etcd_use_t **uses, ngx_etcd_key_t *key, ngx_etcd_member_t *member);

/* ends all uses in the list that were not seen; a name nobody uses is gone */
void ngx_etcd_host_unuse(ngx_etcd_use_t **uses);

/* what is known of the name; none: nothing yet, and the reason may say why */
ngx_etcd_host_addresses_t *ngx_etcd_host_addresses(ngx_etcd_host_t *host,
    ngx_str_t *reason);

/* its name, in lower case */
ngx_str_t *ngx_etcd_host_name(ngx_etcd_host_t *host);

/* in the order that addresses of names are kept in */
void ngx_etcd_host_sort(ngx_etcd_host_address_t *addresses, ngx_uint_t n);


#endif /* _NGX_ETCD_HOST_H_INCLUDED_ */
