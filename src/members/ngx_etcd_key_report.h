
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The reports on the keys of a set: invalid values, and keys that are valid but
 * not used.  Each is in the status while it lasts, and in the log once.
 * The member diff's.
 */


#ifndef _NGX_ETCD_KEY_REPORT_H_INCLUDED_
#define _NGX_ETCD_KEY_REPORT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_commit.h>
#include <ngx_etcd_decode.h>
#include <ngx_etcd_index.h>
#include <ngx_etcd_member.h>


typedef struct {
    /* set by the caller, the rest zeroed */

    ngx_str_t                   *name;         /* of the upstream */
    ngx_str_t                   *prefix;
    ngx_etcd_zone_t             *zone;
    ngx_etcd_member_set_t       *set;
    ngx_log_t                   *log;
    unsigned                     strict:1;     /* an invalid key has no
                                                  members */
    unsigned                     unowned:1;    /* the master's */

    ngx_etcd_leader_conf_t      *leader;       /* NULL: "etcd_members" */

    uint64_t                    *once;         /* bits: hashes that the log has
                                                  from any set of a catalog;
                                                  NULL: no catalog */

    uint64_t                     groups;       /* bits: of Citus, seen */
    ngx_etcd_unused_t            unused;
    ngx_etcd_key_t              *named[NGX_ETCD_MEMBER_SET_UNUSED];
                                               /* the keys of its rows */
    unsigned                     changed:1;    /* the zone has other rows */
} ngx_etcd_key_report_t;


/* Forgets all rows, since the keys are freed. */
void ngx_etcd_key_report_close(ngx_etcd_key_report_t *report);

/*
 * Reports what was read from a key; "partly": a part of its value is used.  A
 * reason without a text takes back that the key is invalid.  NGX_AGAIN: the
 * mutex was held.
 */
ngx_int_t ngx_etcd_key_report(ngx_etcd_key_report_t *report,
    ngx_etcd_key_t *key, ngx_etcd_reason_t *reason, int64_t revision,
    ngx_uint_t partly);

/* Whether and why the key is not used; NULL: it is, or it is gone. */
void ngx_etcd_key_report_unused(ngx_etcd_key_report_t *report,
    ngx_etcd_key_t *key, ngx_etcd_reason_t *reason, int64_t revision);

/* A key is ignored by its name: tells whether the name is to blame. */
void ngx_etcd_key_report_ignored(ngx_etcd_key_report_t *report,
    ngx_str_t *key);

/* A key has the same address as another one. */
void ngx_etcd_key_report_hidden(ngx_etcd_key_report_t *report,
    ngx_etcd_key_t *key, ngx_etcd_member_t *member);

/* The zone has no room for so many members. */
void ngx_etcd_key_report_full(ngx_etcd_key_report_t *report, ngx_uint_t n);

/*
 * Called when the members are published: writes what has changed to the zone,
 * and logs that the prefix has no keys, or none that are used.  "drains" is the
 * number of keys that drain members.  NGX_OK, NGX_BUSY: call again, or
 * NGX_DECLINED: another process owns the zone.
 */
ngx_int_t ngx_etcd_key_report_published(ngx_etcd_key_report_t *report,
    ngx_etcd_index_t *index, ngx_etcd_mirror_t *mirror, ngx_uint_t drains);


#endif /* _NGX_ETCD_KEY_REPORT_H_INCLUDED_ */
