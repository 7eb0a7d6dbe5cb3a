
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The one list of all fields of the status: the JSON, the metrics, and the
 * test of the documentation are loops over these tables.
 */


#ifndef _NGX_ETCD_STATUS_FIELD_H_INCLUDED_
#define _NGX_ETCD_STATUS_FIELD_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_status.h>
#include <ngx_etcd_text_buffer.h>


/* how a field is read at its offset, and written */

typedef enum {
    NGX_ETCD_STATUS_END = 0,         /* the end of the table */
    NGX_ETCD_STATUS_NUMBER,          /* int64_t; -1 in metrics: infinite */
    NGX_ETCD_STATUS_BOOLEAN,         /* int64_t */
    NGX_ETCD_STATUS_TEXT,            /* ngx_str_t */
    NGX_ETCD_STATUS_NULLABLE,        /* ngx_str_t; no data: null */
    NGX_ETCD_STATUS_OPTIONAL,        /* ngx_str_t; no data: omitted */
    NGX_ETCD_STATUS_OBJECT,
    NGX_ETCD_STATUS_LIST,            /* ngx_etcd_status_list_t */
    NGX_ETCD_STATUS_STREAM,          /* a list that is written in pieces, after
                                        all other fields */
    NGX_ETCD_STATUS_COUNTS,          /* uint64_t for each state of the metric;
                                        the first one ABSENT: none */
    NGX_ETCD_STATUS_REASONS,         /* COUNTS, of which JSON has none
                                        of 0 */
    NGX_ETCD_STATUS_HISTOGRAM        /* ngx_etcd_histogram_t; the sum ABSENT:
                                        none */
} ngx_etcd_status_type_e;


typedef struct ngx_etcd_status_field_s  ngx_etcd_status_field_t;

struct ngx_etcd_status_field_s {
    ngx_str_t                       name;       /* in JSON; empty: only a
                                                   metric */
    ngx_etcd_status_type_e          type;
    size_t                          offset;     /* in the object */
    const ngx_etcd_status_field_t  *fields;     /* of the objects in it */
    ngx_etcd_metric_t               metric;     /* no name: only in JSON */
};


/* Objects of one kind. */

struct ngx_etcd_status_kind_s {
    const char                     *name;       /* in JSON; NULL: elsewhere */
    const ngx_etcd_status_field_t  *fields;
    const ngx_etcd_status_field_t  *labels;     /* texts; or NULL: no metrics */

    /*
     * Returns the object of the current row, NULL if there are no more rows.
     * No function: the objects are read in another way.
     */
    void                         *(*row)(ngx_etcd_status_t *status);
};


extern const ngx_etcd_status_kind_t  ngx_etcd_status_nginx;
extern const ngx_etcd_status_kind_t  ngx_etcd_status_clusters;
extern const ngx_etcd_status_kind_t  ngx_etcd_status_endpoints;
extern const ngx_etcd_status_kind_t  ngx_etcd_status_upstreams;
extern const ngx_etcd_status_kind_t  ngx_etcd_status_stream_upstreams;
extern const ngx_etcd_status_kind_t  ngx_etcd_status_members;
extern const ngx_etcd_status_kind_t  ngx_etcd_status_elections;
extern const ngx_etcd_status_kind_t  ngx_etcd_status_locks;
extern const ngx_etcd_status_kind_t  ngx_etcd_status_variables;
extern const ngx_etcd_status_kind_t  ngx_etcd_status_zone;
extern const ngx_etcd_status_kind_t  ngx_etcd_status_events;


/* Of the objects in streams. */

extern const ngx_etcd_status_field_t  ngx_etcd_status_set_fields[];
extern const ngx_etcd_status_field_t  ngx_etcd_status_invalid_fields[];
extern const ngx_etcd_status_field_t  ngx_etcd_status_unused_fields[];
extern const ngx_etcd_status_field_t  ngx_etcd_status_holder_fields[];
extern const ngx_etcd_status_field_t  ngx_etcd_status_waiter_fields[];


#define ngx_etcd_status_at(object, field)                                     \
    ((void *) ((u_char *) (object) + (field)->offset))


/* 1: there is neither a field nor a sample. */
ngx_uint_t ngx_etcd_status_field_absent(const ngx_etcd_status_field_t *field,
    void *value);

/*
 * Writes an object as JSON, by the table of its fields.
 */

void ngx_etcd_status_json_fields(ngx_etcd_text_buffer_t *out,
    const ngx_etcd_status_field_t *fields, void *object);


#endif /* _NGX_ETCD_STATUS_FIELD_H_INCLUDED_ */
