
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_message.h>


/* for the structures that even an empty message needs */
#define NGX_ETCD_MESSAGE_BASE  4096


typedef struct {
    ngx_pool_t  *pool;
    size_t       left;
} ngx_etcd_message_budget_t;


static void *ngx_etcd_message_alloc(void *data, size_t size);
static void ngx_etcd_message_free(void *data, void *p);


ProtobufCMessage *
ngx_etcd_message_unpack(const ProtobufCMessageDescriptor *descriptor,
    ngx_pool_t *pool, u_char *data, size_t len)
{
    ProtobufCAllocator         allocator;
    ngx_etcd_message_budget_t  budget;

    if (len > (NGX_MAX_SIZE_T_VALUE - NGX_ETCD_MESSAGE_BASE)
              / NGX_ETCD_MESSAGE_GROWTH)
    {
        return NULL;
    }

    budget.pool = pool;
    budget.left = len * NGX_ETCD_MESSAGE_GROWTH + NGX_ETCD_MESSAGE_BASE;

    allocator.alloc = ngx_etcd_message_alloc;
    allocator.free = ngx_etcd_message_free;
    allocator.allocator_data = &budget;

    return protobuf_c_message_unpack(descriptor, &allocator, len, data);
}


static void *
ngx_etcd_message_alloc(void *data, size_t size)
{
    ngx_etcd_message_budget_t  *budget = data;

    if (size > budget->left) {
        return NULL;
    }

    budget->left -= size;

    return ngx_palloc(budget->pool, size);
}


static void
ngx_etcd_message_free(void *data, void *p)
{
    /*
     * Left to the pool: looking for one large block among those of a big
     * message would take time in proportion to their number.
     */
}
