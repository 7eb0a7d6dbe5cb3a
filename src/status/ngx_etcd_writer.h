
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Text in the making, as a chain of buffers that are used again once somebody
 * has sent them.
 */


#ifndef _NGX_ETCD_WRITER_H_INCLUDED_
#define _NGX_ETCD_WRITER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <jansson.h>


#define NGX_ETCD_WRITER_BUFFER  16384


/*
 * A failure, which is for want of memory, stays: nothing is written any more,
 * and who writes does not have to look at it each time.
 */

typedef struct {
    ngx_pool_t      *pool;
    ngx_buf_tag_t    tag;               /* of the buffers */
    ngx_chain_t     *out;               /* what was written */
    ngx_chain_t    **last;
    ngx_buf_t       *buf;               /* the last one of out, or NULL */
    ngx_chain_t     *free;              /* to be used next */
    size_t           size;              /* of out */
    ngx_uint_t       failed;
} ngx_etcd_writer_t;


void ngx_etcd_writer_init(ngx_etcd_writer_t *writer, ngx_pool_t *pool,
    ngx_buf_tag_t tag);

/* takes what was written: the caller sends it and fills writer->free */
ngx_chain_t *ngx_etcd_writer_take(ngx_etcd_writer_t *writer);

/* what does not fit into the last buffer */
void ngx_etcd_writer_spill(ngx_etcd_writer_t *writer, const void *data,
    size_t len);


static ngx_inline void
ngx_etcd_writer_bytes(ngx_etcd_writer_t *writer, const void *data, size_t len)
{
    ngx_buf_t  *b;

    b = writer->buf;

    if (b == NULL || len > (size_t) (b->end - b->last)) {
        ngx_etcd_writer_spill(writer, data, len);
        return;
    }

    b->last = ngx_cpymem(b->last, data, len);
    writer->size += len;
}


#define ngx_etcd_writer_literal(writer, text)                                 \
    ngx_etcd_writer_bytes(writer, text, sizeof(text) - 1)

/* in the form of ngx_sprintf(), at most NGX_ETCD_WRITER_FORMAT bytes */

#define NGX_ETCD_WRITER_FORMAT  128

void ngx_etcd_writer_printf(ngx_etcd_writer_t *writer, const char *fmt, ...);

void ngx_etcd_writer_number(ngx_etcd_writer_t *writer, uint64_t n);

/* takes the object over; NULL is a failure.  The flags are jansson's */
void ngx_etcd_writer_json(ngx_etcd_writer_t *writer, json_t *json,
    size_t flags);

/*
 * Bytes as a string of JSON, and as a value of a label in Prometheus's text
 * formats; both with their quotes.  Bytes of what is no UTF-8 are shown as
 * \xff, and so are control characters in labels, which have no escapes for
 * these.
 */
void ngx_etcd_writer_text(ngx_etcd_writer_t *writer, ngx_str_t *text);
void ngx_etcd_writer_label(ngx_etcd_writer_t *writer, ngx_str_t *value);


/* such a string for jansson.  NULL: no memory */
json_t *ngx_etcd_writer_string(u_char *data, size_t len);

#define ngx_etcd_writer_str(str)                                              \
    ngx_etcd_writer_string((str)->data, (str)->len)


#endif /* _NGX_ETCD_WRITER_H_INCLUDED_ */
