
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A growing text as a chain of buffers, which are reused after they have been
 * sent.
 */


#ifndef _NGX_ETCD_TEXT_BUFFER_H_INCLUDED_
#define _NGX_ETCD_TEXT_BUFFER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_ETCD_TEXT_BUFFER_BUFFER  16384


/*
 * If an allocation fails, "failed" is set and further output is ignored:
 * callers need not check each call.
 */

typedef struct {
    ngx_pool_t      *pool;
    ngx_buf_tag_t    tag;               /* buf->tag */
    ngx_chain_t     *out;               /* chain of output */
    ngx_chain_t    **last;
    ngx_buf_t       *buf;               /* last buffer of out, or NULL */
    ngx_chain_t     *free;              /* buffers to reuse */
    size_t           size;              /* bytes in out */
    ngx_uint_t       failed;
} ngx_etcd_text_buffer_t;


void ngx_etcd_text_buffer_init(ngx_etcd_text_buffer_t *buffer, ngx_pool_t *pool,
    ngx_buf_tag_t tag);

/*
 * Detaches the output.  The caller sends it and returns sent buffers to
 * text buffer->free.
 */
ngx_chain_t *ngx_etcd_text_buffer_take(ngx_etcd_text_buffer_t *buffer);

/* Appends data that does not fit into the last buffer. */
void ngx_etcd_text_buffer_spill(ngx_etcd_text_buffer_t *buffer,
    const void *data, size_t len);


static ngx_inline void
ngx_etcd_text_buffer_bytes(ngx_etcd_text_buffer_t *buffer, const void *data,
    size_t len)
{
    ngx_buf_t  *b;

    b = buffer->buf;

    if (b == NULL || len > (size_t) (b->end - b->last)) {
        ngx_etcd_text_buffer_spill(buffer, data, len);
        return;
    }

    if (len != 0) {
        b->last = ngx_cpymem(b->last, data, len);
        buffer->size += len;
    }
}


#define ngx_etcd_text_buffer_literal(buffer, text)                             \
    ngx_etcd_text_buffer_bytes(buffer, text, sizeof(text) - 1)

/*
 * The format is that of ngx_sprintf(); at most NGX_ETCD_TEXT_BUFFER_FORMAT
 * bytes.
 */

#define NGX_ETCD_TEXT_BUFFER_FORMAT  128

void ngx_etcd_text_buffer_printf(ngx_etcd_text_buffer_t *buffer,
    const char *fmt, ...);

void ngx_etcd_text_buffer_number(ngx_etcd_text_buffer_t *buffer, int64_t n);

/*
 * Writes bytes with quotes, and "control" before the two digits of a control
 * character: NGX_ETCD_TEXT_BUFFER_JSON for a JSON string, and _LABEL for a
 * label's value in the formats of Prometheus, where no escape exists for them.
 * Bytes that are not UTF-8 are written as \xff.
 */
void ngx_etcd_text_buffer_quote(ngx_etcd_text_buffer_t *buffer, ngx_str_t *text,
    const char *control);

#define NGX_ETCD_TEXT_BUFFER_JSON   "\\u00"
#define NGX_ETCD_TEXT_BUFFER_LABEL  "\\\\x"

#define ngx_etcd_text_buffer_text(buffer, text)                               \
    ngx_etcd_text_buffer_quote(buffer, text, NGX_ETCD_TEXT_BUFFER_JSON)


#endif /* _NGX_ETCD_TEXT_BUFFER_H_INCLUDED_ */
