
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Sets in a reload: a set gets another zone, whose size is another one, or
 * another owner, or nobody needs it and it is freed, piece by piece.
 */


#ifndef _NGX_ETCD_RELOAD_H_INCLUDED_
#define _NGX_ETCD_RELOAD_H_INCLUDED_


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


typedef struct {
    uint32_t                         params;       /* of the configuration: if
                                                      others, the set is listed;
                                                      set->params changes when
                                                      all values are published
                                                      */
    uint32_t                         verdicts;     /* bits that the owner sets:
                                                      others would never be
                                                      cleared */
    ngx_uint_t                       mandatory;    /* of the configuration */
    ngx_uint_t                       distrust;     /* result: every value is to
                                                      be read again, since the
                                                      set may have a part of a
                                                      revision, has other
                                                      params, or does not have
                                                      all keys */
    ngx_uint_t                       relist;       /* result: keys are not used,
                                                      which the set does not
                                                      have */
} ngx_etcd_member_set_adopt_t;


/*
 * Called by an owner before it reads or changes a set, which may be of a former
 * configuration, or of a former owner.  Results of ngx_etcd_zone_lock_owned().
 */
ngx_int_t ngx_etcd_member_set_inherit_adopt(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, ngx_etcd_member_set_adopt_t *adopt);


/*
 * Called by the owner: frees the sets that its configuration has not
 * declared, until a time of ngx_etcd_time_budget_now().  The next call goes on
 * with zone->retiring.  Workers of older configurations that still serve
 * requests keep their copies.  Results as of ngx_etcd_zone_work().
 */
ngx_int_t ngx_etcd_retire_sets(ngx_etcd_zone_t *zone, uint64_t until);

/*
 * Frees one set, which the caller has made old: its epoch is 0.  What is left
 * is for the next call of ngx_etcd_retire_sets(), which looks at all sets
 * again, or for the next owner's.  Results as of ngx_etcd_retire_sets().
 */
ngx_int_t ngx_etcd_retire_one(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, uint64_t until);


#endif /* _NGX_ETCD_RELOAD_H_INCLUDED_ */
