
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The operator's drain: while etcd has the key "PREFIX/.drain/ADDRESS", all
 * members of that address below the prefix drain.
 *
 * The mirror of a service knows these keys beside those of its members, and
 * serves as the set of drained addresses: ngx_etcd_member_diff_register() looks
 * there for the address of each member that it packs, whatever key, format or
 * leader it comes from.  When such a key comes or goes, the registrations of
 * its address are found by the slot index, and are packed again
 * (ngx_etcd_member_drain()): values of etcd are not kept, and reading the
 * prefix again would cost etcd a list for each drain and each nginx.
 *
 * So a packed member has a bit of its own, attr.ordered, for one that drains
 * for such a key only: it is what the end of the drain takes back.  The bit is
 * in the zone and in the state file.  By it the next agent knows the keys of
 * members that drain before its list has come (ngx_etcd_index.c); that there
 * are other such keys makes it list the prefix, as keys that are not used do
 * (NGX_ETCD_UNUSED_NONE).
 */


#ifndef _NGX_ETCD_DRAIN_H_INCLUDED_
#define _NGX_ETCD_DRAIN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_mirror.h>


/*
 * Returns 1 if a key drains members of the prefix, and the rest of its name,
 * which should be an address.
 */
ngx_uint_t ngx_etcd_drain_address(ngx_str_t *prefix, ngx_str_t *key,
    ngx_str_t *address);

/*
 * The key that drains the members of an address; NULL: there is none, or,
 * with "seed", no memory to add it.
 */
ngx_etcd_mirror_entry_t *ngx_etcd_drain_find(ngx_etcd_mirror_t *mirror,
    ngx_str_t *prefix, ngx_str_t *address, ngx_uint_t seed);


#endif /* _NGX_ETCD_DRAIN_H_INCLUDED_ */
