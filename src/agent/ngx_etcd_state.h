
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The text of a state: the last known good members and values of variables of
 * a cluster, which outlives nginx:
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
 *     {"key":"/flags/maintenance","mod_revision":6,"value":"1"}
 *     ]}
 *     }
 *
 * Each set of a prefix with variables is an upstream that also has "pattern",
 * the prefix with variables.  While members are held, "held_until" is the end
 * of that in seconds since 1970, and each such member has "held":true.
 *
 * A member by host name also has "host", "port" and "whole_weight"; its
 * "address" is one of the addresses of the host, or empty if none is known.
 *
 * The checksum is the SHA-1 of all bytes from the first byte of the second line
 * to the last byte before the final "\n}\n".  A string that is not UTF-8 is
 * {"base64":"..."}.
 */


#ifndef _NGX_ETCD_STATE_H_INCLUDED_
#define _NGX_ETCD_STATE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <jansson.h>
#include <ngx_etcd_service.h>
#include <ngx_etcd_view.h>


#define NGX_ETCD_STATE_VERSION  1
#define NGX_ETCD_STATE_PIECE    256       /* members encoded at a time */

#define NGX_ETCD_STATE_HEAD     128       /* longer than the head ever is */
#define NGX_ETCD_STATE_TAIL     "\n}\n"


/* the origin of the state */

typedef struct {
    ngx_str_t                 cluster;
    ngx_str_t                 key_namespace;
    uint64_t                  cluster_id;
    uint64_t                  revision;       /* the highest seen */
} ngx_etcd_state_t;


/* the value of a variable */

typedef struct {
    ngx_str_t                 key;
    ngx_str_t                 value;
    uint64_t                  modified;
} ngx_etcd_state_value_t;


/* a text that is being encoded; refers to nothing but its members */

typedef struct {
    ngx_etcd_state_t          state;
    ngx_array_t              *snapshots;      /* of ngx_etcd_snapshot_t */
    ngx_array_t              *values;         /* of ngx_etcd_state_value_t */
    ngx_log_t                *log;

    ngx_uint_t                n;              /* snapshot at hand */
    ngx_etcd_copy_t          *copy;           /* next entry of the snapshot */
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


/* Returns 1 if the snapshot has data worth saving. */
ngx_uint_t ngx_etcd_state_known(ngx_etcd_snapshot_t *snapshot);

/*
 * Encodes a part of the text.  NGX_OK: the text is complete; NGX_AGAIN: call
 * again; NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_state_encode(ngx_etcd_state_text_t *text);

/*
 * Writes the head of a text with that content; returns the length of the head.
 */
size_t ngx_etcd_state_head(u_char *buf, u_char *content, size_t len);


#endif /* _NGX_ETCD_STATE_H_INCLUDED_ */
