
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The text of a state: the last known good members and values of variables of
 * a cluster, which outlives nginx.
 *
 * The text begins with "nginx-etcd state", the version, and the SHA-1 of all
 * bytes that follow.  These are records, each of one head, a key and data.
 * Integers are in network byte order:
 *
 *     head   kind (8 bits), flags (8), zero (16), length of the key (32), of
 *            the data (32), created, modified, lease (64 each)
 *
 * The records of a text, in this order:
 *
 *     ORIGIN  key: name of the cluster; data: namespace; created: id of the
 *             cluster; modified: the highest revision seen
 *     SET     key: prefix; data: name of the upstream, and for a set of a
 *             prefix with variables a zero byte and that prefix; created: end
 *             of the time for which members are held, in seconds since 1970,
 *             or 0; modified: the revision of the set, 0: it is to be listed;
 *             lease: hash of its parameters
 *     MEMBER  of the set before it; data: of ngx_etcd_state_member()
 *     VALUE   of a variable
 *     END
 *
 * There is no or any number of sets, of members of each, and of values.  What
 * the zone keeps of a member is not written as it is there: a file outlives
 * the form of the zone, and is read as what anybody may have written.
 */


#ifndef _NGX_ETCD_STATE_H_INCLUDED_
#define _NGX_ETCD_STATE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_member.h>


#define NGX_ETCD_STATE_VERSION  2


typedef enum {
    NGX_ETCD_STATE_ORIGIN = 1,
    NGX_ETCD_STATE_SET,
    NGX_ETCD_STATE_MEMBER,
    NGX_ETCD_STATE_VALUE,
    NGX_ETCD_STATE_END
} ngx_etcd_state_kind_e;


#define NGX_ETCD_STATE_STREAM   0x01       /* a set of stream */
#define NGX_ETCD_STATE_GONE     0x02       /* a member that is kept */
#define NGX_ETCD_STATE_HELD     0x04       /* likewise, by the guard */


typedef struct {
    ngx_uint_t                kind;
    ngx_uint_t                flags;
    uint64_t                  created;
    uint64_t                  modified;
    uint64_t                  lease;
    ngx_str_t                 literal;     /* begins the key that is written */
    ngx_str_t                 key;
    ngx_str_t                 data;
} ngx_etcd_state_record_t;


/* A text that is being written; all zero but the log: empty. */

typedef struct {
    u_char                   *data;        /* ngx_free() it */
    size_t                    len;
    size_t                    size;
    ngx_log_t                *log;
} ngx_etcd_state_text_t;


/* bytes of a member without its address, route, and host name */

#define NGX_ETCD_STATE_MEMBER_HEAD  32

#define NGX_ETCD_STATE_MEMBER_MAX                                             \
    (NGX_ETCD_STATE_MEMBER_HEAD + NGX_ETCD_MEMBER_NAME_LEN                    \
     + NGX_ETCD_MEMBER_MAX_ROUTE + NGX_ETCD_MEMBER_MAX_HOST)


/*
 * Makes the text a quarter larger than it needs to be now, so that the next
 * pieces seldom need memory under a mutex.  NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_state_reserve(ngx_etcd_state_text_t *text);

/* Appends a record.  NGX_ERROR: no memory. */
ngx_int_t ngx_etcd_state_put(ngx_etcd_state_text_t *text,
    ngx_etcd_state_record_t *record);

/* Completes the text, whose last record is written. */
void ngx_etcd_state_seal(ngx_etcd_state_text_t *text);

/* Writes the data of a member from its payload; returns their length. */
size_t ngx_etcd_state_member(u_char *data, u_char *payload);


/* The version of a text; 0: it is the text of something else. */
ngx_uint_t ngx_etcd_state_version(ngx_str_t *text);

/*
 * Moves to the first record of a text of this version.  NGX_ERROR: the checksum
 * is wrong.
 */
ngx_int_t ngx_etcd_state_open(ngx_str_t *text);

/*
 * Reads the next record of the rest of a text, which the record points into.
 * Returns NULL, or what is wrong.
 */
char *ngx_etcd_state_get(ngx_str_t *rest, ngx_etcd_state_record_t *record);

/*
 * Reads the data of a member: its attributes, route, and host; a host that has
 * no address makes an empty one.  Returns NULL, or the name of what a member
 * does not have so.  The address and the host are not parsed.
 */
char *ngx_etcd_state_member_read(ngx_str_t *data, ngx_etcd_member_t *member,
    ngx_str_t *address);


#endif /* _NGX_ETCD_STATE_H_INCLUDED_ */
