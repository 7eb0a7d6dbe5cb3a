
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The keys of the candidates of an election, below its prefix.
 */


#ifndef _NGX_ETCD_CANDIDATE_H_INCLUDED_
#define _NGX_ETCD_CANDIDATE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_mirror.h>


#define NGX_ETCD_CANDIDATE_MAX_VALUE  4096     /* bytes of a value */


/*
 * Returns why a key below the prefix is not a candidate, or NULL if it is one.
 * The entry must keep one byte more than NGX_ETCD_CANDIDATE_MAX_VALUE.  The
 * prefix is its length in the key.
 */
const char *ngx_etcd_candidate_fault(ngx_etcd_mirror_entry_t *entry,
    size_t prefix);

/*
 * Returns 1 if the name of a key below the prefix is the key's lease in decimal
 * digits, as the npm package etcd3 writes it.
 */
ngx_uint_t ngx_etcd_candidate_decimal(ngx_str_t *key, int64_t lease,
    size_t prefix);


#endif /* _NGX_ETCD_CANDIDATE_H_INCLUDED_ */
