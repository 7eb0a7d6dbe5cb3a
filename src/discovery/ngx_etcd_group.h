
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Several keys that make one member: "PREFIX/0/url" and "PREFIX/0/weight".
 * Stands between the watch and the registrations of a service, as leaders do:
 * it keeps the values in the agent's own memory, and registers after every
 * whole revision what they have in common, "PREFIX/0", with an object of them
 * as its value: {"url":"...","weight":"..."}.
 */


#ifndef _NGX_ETCD_GROUP_H_INCLUDED_
#define _NGX_ETCD_GROUP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_proto.pb-c.h>


typedef struct ngx_etcd_service_s  ngx_etcd_service_t;
typedef struct ngx_etcd_part_s     ngx_etcd_part_t;


/* one key; the value is shorter where no format would look into it */

struct ngx_etcd_part_s {
    ngx_etcd_part_t           *next;         /* of its group */
    uint64_t                   create_revision;
    uint64_t                   mod_revision;
    ngx_uint_t                 mark;         /* of the last list */
    ngx_uint_t                 audited;      /* of the last audit */
    ngx_str_t                  name;         /* both in memory of the part */
    ngx_str_t                  value;
};


typedef struct {
    ngx_etcd_service_t        *service;
    ngx_rbtree_t               tree;         /* of groups, by their path */
    ngx_rbtree_node_t          sentinel;
    ngx_queue_t                groups;       /* all, those changed first */
    ngx_uint_t                 mark;         /* of the present list */
} ngx_etcd_groups_t;


/* of an agent's service; memory is of the pool.  NULL: no memory */
ngx_etcd_groups_t *ngx_etcd_groups_create(ngx_etcd_service_t *service,
    ngx_pool_t *pool);
void ngx_etcd_groups_destroy(ngx_etcd_groups_t *groups);

/* what the watch reports; without memory the service is broken afterwards */

void ngx_etcd_groups_list(ngx_etcd_groups_t *groups);
void ngx_etcd_groups_put(ngx_etcd_groups_t *groups, Etcd__KeyValue *kv);
void ngx_etcd_groups_delete(ngx_etcd_groups_t *groups, Etcd__KeyValue *kv);

/* keys without the present mark are gone */
void ngx_etcd_groups_sweep(ngx_etcd_groups_t *groups);

/* registers the groups that have changed */
void ngx_etcd_groups_register(ngx_etcd_groups_t *groups);

/*
 * For audits: 0, the key is no part of any member; what is known of a key, or
 * NULL; what is called with every part that has another mark, and its group's
 * path.
 */
ngx_uint_t ngx_etcd_groups_wants(ngx_etcd_groups_t *groups, ngx_str_t *key);
ngx_etcd_part_t *ngx_etcd_groups_find(ngx_etcd_groups_t *groups,
    ngx_str_t *key);
void ngx_etcd_groups_missing(ngx_etcd_groups_t *groups, ngx_uint_t audited,
    void (*found)(void *data, ngx_etcd_part_t *part, ngx_str_t *path),
    void *data);


#endif /* _NGX_ETCD_GROUP_H_INCLUDED_ */
