
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Copies the members of a set to a zone of another size.
 */


#ifndef _NGX_ETCD_MEMBER_SET_INHERIT_H_INCLUDED_
#define _NGX_ETCD_MEMBER_SET_INHERIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_member_set.h>


/*
 * Called by the master: copies the shown entries, without counters, from the
 * same set in the zone of the previous configuration, which had another size.
 * If that set has further entries, or changes during the copy, the new set is
 * listed again.  NGX_OK (also if there is no such set), NGX_AGAIN, or
 * NGX_ERROR (the zone is too small).
 */
ngx_int_t ngx_etcd_member_set_inherit(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, ngx_etcd_zone_t *from);

/* The same from a set that the caller knows, with the id of that set. */
ngx_int_t ngx_etcd_member_set_inherit_from(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, ngx_etcd_zone_t *from,
    ngx_etcd_member_set_t *old, uint32_t id);


#endif /* _NGX_ETCD_MEMBER_SET_INHERIT_H_INCLUDED_ */
