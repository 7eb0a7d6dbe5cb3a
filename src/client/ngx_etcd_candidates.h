
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The keys below an election's prefix, in the order of their creation.
 */


#ifndef _NGX_ETCD_CANDIDATES_H_INCLUDED_
#define _NGX_ETCD_CANDIDATES_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_mirror.h>


#define NGX_ETCD_CANDIDATE_MAX_VALUE  4096     /* bytes that are kept */


typedef struct {
    ngx_str_node_t               name;         /* first: the tree's; its
                                                  string is the key */
    ngx_rbtree_node_t            order;
    int64_t                      created;      /* its create revision */
    int64_t                      modified;
    int64_t                      lease;
    ngx_str_t                    value;
    ngx_uint_t                   generation;
} ngx_etcd_candidate_t;


typedef struct {
    size_t                       prefix;       /* of every key: its length */
    ngx_rbtree_t                 keys;
    ngx_rbtree_node_t            keys_sentinel;
    ngx_rbtree_t                 order;
    ngx_rbtree_node_t            order_sentinel;
    ngx_uint_t                   generation;
    ngx_log_t                   *log;
} ngx_etcd_candidates_t;


/* by its node in the order */

#define ngx_etcd_candidate_of(n)                                              \
    ((ngx_etcd_candidate_t *)                                                 \
         ((u_char *) (n) - offsetof(ngx_etcd_candidate_t, order)))


void ngx_etcd_candidates_init(ngx_etcd_candidates_t *candidates,
    size_t prefix, ngx_log_t *log);
void ngx_etcd_candidates_destroy(ngx_etcd_candidates_t *candidates);

/* what is not put between these two is gone */
void ngx_etcd_candidates_begin(ngx_etcd_candidates_t *candidates);
void ngx_etcd_candidates_end(ngx_etcd_candidates_t *candidates);

/* NGX_ERROR: no memory; what there was of the key is gone then */
ngx_int_t ngx_etcd_candidates_put(ngx_etcd_candidates_t *candidates,
    Etcd__KeyValue *kv);
void ngx_etcd_candidates_remove(ngx_etcd_candidates_t *candidates,
    ngx_str_t *key);

ngx_etcd_candidate_t *ngx_etcd_candidates_find(
    ngx_etcd_candidates_t *candidates, ngx_str_t *key);

/* the one created first, be it a proper one or not; NULL: there is none */
ngx_etcd_candidate_t *ngx_etcd_candidates_first(
    ngx_etcd_candidates_t *candidates);

/* 1: another one was created at the same revision as the first */
ngx_uint_t ngx_etcd_candidates_tied(ngx_etcd_candidates_t *candidates);

/*
 * What makes a key below the prefix no candidate; NULL: it is one.  One byte
 * more than NGX_ETCD_CANDIDATE_MAX_VALUE is kept of its value.
 */
const char *ngx_etcd_candidate_fault(ngx_etcd_mirror_entry_t *entry,
    size_t prefix);

/*
 * 1 if the name of a key below the prefix is the key's own lease in decimal
 * digits, as the npm package etcd3 writes it.
 */
ngx_uint_t ngx_etcd_candidate_decimal(ngx_str_t *key, int64_t lease,
    size_t prefix);


#endif /* _NGX_ETCD_CANDIDATES_H_INCLUDED_ */
