
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The keys of candidates below an election's prefix.
 */


#ifndef _NGX_ETCD_CANDIDATE_H_INCLUDED_
#define _NGX_ETCD_CANDIDATE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_mirror.h>


#define NGX_ETCD_CANDIDATE_MAX_VALUE  4096     /* bytes that are kept */


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


#endif /* _NGX_ETCD_CANDIDATE_H_INCLUDED_ */
