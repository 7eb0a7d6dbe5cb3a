
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_message.h>
#include <ngx_etcd_proto.pb-c.h>
#include <ngx_etcd_secret.h>


/* added for the structures of an empty message */
#define NGX_ETCD_MESSAGE_BASE   4096

#define NGX_ETCD_MESSAGE_SMALL  (NGX_MAX_ALLOC_FROM_POOL / 2)


typedef struct {
    ngx_pool_t    *pool;
    ngx_queue_t   *large;
    size_t         left;
    unsigned       exceeded:1;
} ngx_etcd_message_budget_t;


/* a field on the wire; data is NULL if the wire type has no length */

typedef struct {
    uint32_t       number;
    u_char        *data;
    size_t         len;
} ngx_etcd_message_field_t;


/*
 * Precedes each allocation.  Large blocks are not taken from the pool:
 * protobuf-c frees temporary blocks while unpacking, which add up for long
 * messages, and ngx_pfree() searches the list of all large blocks.
 */

typedef struct {
    ngx_queue_t    queue;
    ngx_uint_t     secret;         /* 1: cleared when it is released */
    size_t         size;           /* must be last; 0: small */
} ngx_etcd_message_block_t;


static ngx_int_t
ngx_etcd_message_varint(u_char **p, u_char *last, uint64_t *n)
{
    ngx_uint_t  shift;

    *n = 0;

    for (shift = 0; shift < 70 && *p < last; shift += 7) {

        *n |= (shift < 64) ? (uint64_t) (**p & 0x7f) << shift : 0;

        if (*(*p)++ < 0x80) {
            return NGX_OK;
        }
    }

    return NGX_ERROR;
}


/* Protocol Buffers, "Encoding": a tag, then a value by its wire type. */

static ngx_int_t
ngx_etcd_message_field(u_char **p, u_char *last,
    ngx_etcd_message_field_t *field)
{
    size_t    len;
    uint64_t  tag, n;

    if (ngx_etcd_message_varint(p, last, &tag) != NGX_OK) {
        return NGX_ERROR;
    }

    field->number = (uint32_t) (tag >> 3);
    field->data = NULL;
    len = 0;

    switch (tag & 7) {

    case PROTOBUF_C_WIRE_TYPE_VARINT:
        return ngx_etcd_message_varint(p, last, &n);

    case PROTOBUF_C_WIRE_TYPE_64BIT:
        len = 8;
        break;

    case PROTOBUF_C_WIRE_TYPE_32BIT:
        len = 4;
        break;

    case PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED:
        if (ngx_etcd_message_varint(p, last, &n) != NGX_OK
            || n > (uint64_t) (last - *p))
        {
            return NGX_ERROR;
        }

        field->data = *p;
        field->len = (size_t) n;
        len = field->len;
        break;

    default:
        return NGX_ERROR;
    }

    if (len > (size_t) (last - *p)) {
        return NGX_ERROR;
    }

    *p += len;

    return NGX_OK;
}


/*
 * Counts the fields before memory and time are spent on unpacking them.
 * etcd's messages nest at most four levels deep; a test verifies that no
 * message type contains itself.  NGX_ERROR: malformed, or *left reached 0.
 */

static ngx_int_t
ngx_etcd_message_count(const ProtobufCMessageDescriptor *descriptor, u_char *p,
    u_char *last, ngx_uint_t *left)
{
    ngx_etcd_message_field_t         field;
    const ProtobufCFieldDescriptor  *known;

    while (p < last) {

        if (ngx_etcd_message_field(&p, last, &field) != NGX_OK
            || --*left == 0)
        {
            return NGX_ERROR;
        }

        if (field.data == NULL) {
            continue;
        }

        known = protobuf_c_message_descriptor_get_field(descriptor,
                                                        field.number);

        if (known != NULL
            && known->type == PROTOBUF_C_TYPE_MESSAGE
            && ngx_etcd_message_count(known->descriptor, field.data,
                                      field.data + field.len, left)
               != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static void
ngx_etcd_message_release(ngx_etcd_message_block_t *block)
{
    ngx_queue_remove(&block->queue);

    if (block->secret) {
        ngx_etcd_secret_release(block, NULL);

    } else {
        ngx_free(block);
    }
}


static void
ngx_etcd_message_cleanup(void *data)
{
    ngx_queue_t *large = data;

    ngx_queue_t  *q;

    while (!ngx_queue_empty(large)) {
        q = ngx_queue_head(large);
        ngx_etcd_message_release(ngx_queue_data(q, ngx_etcd_message_block_t,
                                                queue));
    }
}


static ngx_queue_t *
ngx_etcd_message_large(ngx_pool_t *pool)
{
    ngx_queue_t         *large;
    ngx_pool_cleanup_t  *cln;

    cln = ngx_pool_cleanup_add(pool, sizeof(ngx_queue_t));
    if (cln == NULL) {
        return NULL;
    }

    large = cln->data;
    ngx_queue_init(large);

    cln->handler = ngx_etcd_message_cleanup;

    return large;
}


static void *
ngx_etcd_message_alloc(void *data, size_t size)
{
    ngx_etcd_message_budget_t *budget = data;

    size_t                    *small;
    ngx_etcd_message_block_t  *block;

    if (size > budget->left) {
        budget->exceeded = 1;
        return NULL;
    }

    if (size <= NGX_ETCD_MESSAGE_SMALL && !ngx_etcd_secret_received) {
        small = ngx_palloc(budget->pool, sizeof(size_t) + size);
        if (small == NULL) {
            return NULL;
        }

        budget->left -= size;
        *small = 0;

        return small + 1;
    }

    block = ngx_etcd_secret_received
            ? ngx_etcd_secret_malloc(sizeof(ngx_etcd_message_block_t) + size,
                                     NULL)
            : ngx_alloc(sizeof(ngx_etcd_message_block_t) + size,
                        budget->pool->log);

    if (block == NULL) {
        return NULL;
    }

    budget->left -= size;
    block->secret = ngx_etcd_secret_received;
    block->size = size;
    ngx_queue_insert_tail(budget->large, &block->queue);

    return block + 1;
}


/* Small blocks are released with the pool. */

static void
ngx_etcd_message_free(void *data, void *p)
{
    ngx_etcd_message_budget_t *budget = data;

    ngx_etcd_message_block_t  *block;

    if (p == NULL || *((size_t *) p - 1) == 0) {
        return;
    }

    block = (ngx_etcd_message_block_t *) p - 1;

    budget->left += block->size;

    ngx_etcd_message_release(block);
}


ProtobufCMessage *
ngx_etcd_message_unpack(const ProtobufCMessageDescriptor *descriptor,
    ngx_pool_t *pool, u_char *data, size_t len, ngx_uint_t *exceeded)
{
    ngx_uint_t                  parts;
    ProtobufCMessage           *message;
    ProtobufCAllocator          allocator;
    ngx_etcd_message_budget_t   budget;

    *exceeded = 0;
    parts = NGX_ETCD_MESSAGE_PARTS;

    if (ngx_etcd_message_count(descriptor, data, data + len, &parts)
        != NGX_OK)
    {
        *exceeded = (parts == 0);
        return NULL;
    }

    budget.exceeded = 0;
    budget.pool = pool;
    budget.left = len + NGX_ETCD_MESSAGE_BASE
                  + ngx_min(len, NGX_ETCD_MESSAGE_WORK
                                 / NGX_ETCD_MESSAGE_GROWTH)
                    * NGX_ETCD_MESSAGE_GROWTH;

    budget.large = ngx_etcd_message_large(pool);
    if (budget.large == NULL) {
        return NULL;
    }

    allocator.alloc = ngx_etcd_message_alloc;
    allocator.free = ngx_etcd_message_free;
    allocator.allocator_data = &budget;

    message = protobuf_c_message_unpack(descriptor, &allocator, len, data);

    *exceeded = budget.exceeded;

    return message;
}


/* the elements of a field, and the rest of the message */

typedef struct {
    ProtobufCBinaryData      *elts;          /* NULL: they are counted only */
    size_t                    n;
    u_char                   *rest;
    size_t                    nrest;
} ngx_etcd_message_parts_t;


/* NGX_ERROR: malformed, or parts->n is NGX_ETCD_MESSAGE_PARTS. */

static ngx_int_t
ngx_etcd_message_split(const ProtobufCFieldDescriptor *bytes, u_char *data,
    size_t len, ngx_etcd_message_parts_t *parts)
{
    u_char                    *p, *start, *last;
    ngx_etcd_message_field_t   field;

    p = data;
    last = data + len;

    parts->n = 0;
    parts->nrest = 0;

    while (p < last) {
        start = p;

        if (ngx_etcd_message_field(&p, last, &field) != NGX_OK) {
            return NGX_ERROR;
        }

        if (field.number != bytes->id || field.data == NULL) {

            if (parts->rest != NULL) {
                ngx_memcpy(parts->rest + parts->nrest, start, p - start);
            }

            parts->nrest += p - start;
            continue;
        }

        if (parts->elts != NULL) {
            parts->elts[parts->n].data = field.data;
            parts->elts[parts->n].len = field.len;
        }

        if (++parts->n >= NGX_ETCD_MESSAGE_PARTS) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


ProtobufCMessage *
ngx_etcd_message_unpack_in_place(const ProtobufCMessageDescriptor *descriptor,
    ngx_pool_t *pool, u_char *data, size_t len, ngx_uint_t *exceeded)
{
    unsigned                         i;
    ProtobufCMessage                *message;
    ngx_etcd_message_parts_t         parts;
    ngx_etcd_message_budget_t        budget;
    const ProtobufCFieldDescriptor  *bytes;

    *exceeded = 0;

    bytes = NULL;

    for (i = 0; i < descriptor->n_fields && bytes == NULL; i++) {
        if (descriptor->fields[i].label == PROTOBUF_C_LABEL_REPEATED
            && descriptor->fields[i].type == PROTOBUF_C_TYPE_BYTES)
        {
            bytes = &descriptor->fields[i];
        }
    }

    if (bytes == NULL) {

        if (len > NGX_ETCD_MESSAGE_WHOLE) {
            *exceeded = 1;
            return NULL;
        }

        return ngx_etcd_message_unpack(descriptor, pool, data, len, exceeded);
    }

    parts.elts = NULL;
    parts.rest = NULL;

    if (ngx_etcd_message_split(bytes, data, len, &parts) != NGX_OK) {
        *exceeded = (parts.n >= NGX_ETCD_MESSAGE_PARTS);
        return NULL;
    }

    if (parts.nrest > NGX_ETCD_MESSAGE_REST) {
        *exceeded = 1;
        return NULL;
    }

    budget.exceeded = 0;
    budget.pool = pool;
    budget.left = parts.n * sizeof(ProtobufCBinaryData) + parts.nrest;

    budget.large = ngx_etcd_message_large(pool);
    if (budget.large == NULL) {
        return NULL;
    }

    parts.elts = ngx_etcd_message_alloc(&budget, parts.n
                                                 * sizeof(ProtobufCBinaryData));
    parts.rest = ngx_etcd_message_alloc(&budget, parts.nrest);

    if (parts.elts == NULL || parts.rest == NULL) {
        return NULL;
    }

    (void) ngx_etcd_message_split(bytes, data, len, &parts);

    message = ngx_etcd_message_unpack(descriptor, pool, parts.rest, parts.nrest,
                                      exceeded);

    if (message != NULL) {
        *(size_t *) ((u_char *) message + bytes->quantifier_offset) = parts.n;
        *(ProtobufCBinaryData **) ((u_char *) message + bytes->offset) =
                                                                   parts.elts;
    }

    return message;
}


ngx_int_t
ngx_etcd_message_own(ngx_pool_t *pool, ngx_etcd_message_owned_t *owned)
{
    ngx_pool_cleanup_t  *cln;

    cln = ngx_pool_cleanup_add(pool, sizeof(ngx_etcd_message_owned_t));

    if (cln == NULL) {
        ngx_etcd_message_disown(owned);
        return NGX_ERROR;
    }

    *(ngx_etcd_message_owned_t *) cln->data = *owned;

    cln->handler = ngx_etcd_message_disown;

    return NGX_OK;
}


void
ngx_etcd_message_disown(void *data)
{
    ngx_etcd_message_owned_t *owned = data;

    if (owned->secret) {
        ngx_etcd_secret_release(owned->data, NULL);

    } else {
        ngx_free(owned->data);
    }
}


size_t
ngx_etcd_message_memory(ngx_pool_t *pool)
{
    size_t                     size;
    ngx_pool_t                *p;
    ngx_queue_t               *q, *large;
    ngx_pool_cleanup_t        *cln;
    ngx_etcd_message_block_t  *block;

    size = 0;

    for (p = pool; p != NULL; p = p->d.next) {
        size += p->d.end - (u_char *) p;
    }

    for (cln = pool->cleanup; cln != NULL; cln = cln->next) {

        if (cln->handler == ngx_etcd_message_disown) {
            size += ((ngx_etcd_message_owned_t *) cln->data)->size;
            continue;
        }

        if (cln->handler != ngx_etcd_message_cleanup) {
            continue;
        }

        large = cln->data;

        for (q = ngx_queue_head(large);
             q != ngx_queue_sentinel(large);
             q = ngx_queue_next(q))
        {
            block = ngx_queue_data(q, ngx_etcd_message_block_t, queue);
            size += sizeof(ngx_etcd_message_block_t) + block->size;
        }
    }

    return size;
}


uint64_t
ngx_etcd_message_cluster_id(ProtobufCMessage *message)
{
    Etcd__ResponseHeader            *header;
    const ProtobufCFieldDescriptor  *field;

    field = protobuf_c_message_descriptor_get_field(message->descriptor, 1);

    if (field == NULL
        || field->label == PROTOBUF_C_LABEL_REPEATED
        || field->descriptor != &etcd__response_header__descriptor)
    {
        return 0;
    }

    header = *(Etcd__ResponseHeader **) ((u_char *) message + field->offset);

    return (header != NULL) ? header->cluster_id : 0;
}
