
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The last known good members, and values of variables, of a cluster as a text
 * that outlives nginx:
 *
 *     {"version":1,"sha1":"...","content":
 *     {"state":{"cluster":"default","namespace":"","cluster_id":"2a",
 *     "revision":7},"upstreams":[
 *     {"upstream":{"name":"api","stream":false,"prefix":"/services/api/",
 *     "params":1,"revision":7},"members":[
 *     {"key":"/services/api/1","create_revision":3,"mod_revision":5,
 *     "gone":false,"address":"10.0.0.7:8080","weight":1,...}
 *     ]}
 *     ],"values":[
 *     {"key":"/flags/maintenance","revision":7,"mod_revision":6,"value":"1"}
 *     ]}
 *     }
 *
 * A member by a host name has "host", "port" and "whole_weight" beside what one
 * of its addresses is; the address is empty where none is known.
 *
 * The checksum is that of all bytes from the third line's first to the last
 * but two ("\n}\n" ends the text).  Bytes that are no UTF-8 are
 * {"base64":"..."} in place of a string.
 */


#ifndef _NGX_ETCD_STATE_H_INCLUDED_
#define _NGX_ETCD_STATE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <jansson.h>
#include <ngx_etcd_service.h>
#include <ngx_etcd_snapshot.h>
#include <ngx_etcd_value.h>


#define NGX_ETCD_STATE_VERSION  1
#define NGX_ETCD_STATE_PIECE    256       /* members encoded at a time */

#define NGX_ETCD_STATE_HEAD     128       /* longer than the head ever is */
#define NGX_ETCD_STATE_TAIL     "\n}\n"


/* whose state it is */

typedef struct {
    ngx_str_t                 cluster;
    ngx_str_t                 key_namespace;
    uint64_t                  cluster_id;
    uint64_t                  revision;       /* the highest seen */
} ngx_etcd_state_t;


/* of a variable; modified is 0 where there is no such key */

typedef struct {
    ngx_str_t                 key;
    ngx_str_t                 value;
    uint64_t                  revision;       /* 0: nothing is known */
    uint64_t                  modified;
    uint64_t                  version;        /* of its cell */
} ngx_etcd_state_value_t;


/* a text in the making; uses nothing but what is named here */

typedef struct {
    ngx_etcd_state_t          state;
    ngx_array_t              *snapshots;      /* of ngx_etcd_snapshot_t */
    ngx_array_t              *values;         /* of ngx_etcd_state_value_t */
    ngx_log_t                *log;

    ngx_uint_t                n;              /* snapshot at hand */
    ngx_etcd_copy_t          *copy;           /* its next entry */
    ngx_uint_t                begun;
    ngx_uint_t                open;           /* within a snapshot */
    ngx_uint_t                nmembers;       /* of it, so far */
    ngx_uint_t                next;           /* value */
    ngx_uint_t                nvalues;        /* so far */
    ngx_uint_t                listed;         /* all snapshots */

    u_char                   *data;           /* the text; ngx_free() it */
    size_t                    len;
    size_t                    size;
} ngx_etcd_state_text_t;


/* 1 if there is anything in the snapshot that is worth to be kept */
ngx_uint_t ngx_etcd_state_known(ngx_etcd_snapshot_t *snapshot);

/* NGX_OK: the text is complete; NGX_AGAIN; NGX_ERROR: no memory */
ngx_int_t ngx_etcd_state_encode(ngx_etcd_state_text_t *text);

/* the head of a text with that content; returns its length */
size_t ngx_etcd_state_head(u_char *buf, u_char *content, size_t len);


#endif /* _NGX_ETCD_STATE_H_INCLUDED_ */
