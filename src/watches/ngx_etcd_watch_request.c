
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_kv.h>
#include <ngx_etcd_proto.pb-c.h>
#include <ngx_etcd_watch_request.h>


ngx_int_t
ngx_etcd_watch_range_init(ngx_etcd_watch_range_t *range, ngx_pool_t *pool,
    ngx_str_t *key_namespace)
{
    if (ngx_etcd_kv_key(&range->key, pool, key_namespace, &range->prefix)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (range->exact) {
        range->range_end.data = range->key.data;
        range->range_end.len = range->key.len + 1;

        return NGX_OK;
    }

    range->range_end = ngx_etcd_range_prefix_end(pool, &range->key);

    return (range->range_end.data != NULL) ? NGX_OK : NGX_ERROR;
}


ngx_uint_t
ngx_etcd_watch_range_contains(ngx_etcd_watch_range_t *range,
    ProtobufCBinaryData *key)
{
    return key->len >= range->key.len
           && (!range->exact || key->len == range->key.len)
           && ngx_memcmp(key->data, range->key.data, range->key.len) == 0;
}


void
ngx_etcd_watch_range_strip(ngx_etcd_watch_range_t *range,
    ProtobufCBinaryData *key)
{
    size_t  len;

    len = range->key.len - range->prefix.len;

    if (key->len >= len) {
        key->data += len;
        key->len -= len;
    }
}


ngx_int_t
ngx_etcd_watch_request_create(ngx_etcd_grpc_call_t *call, ngx_str_t *key,
    ngx_str_t *range_end, int64_t revision)
{
    Etcd__WatchRequest        request;
    Etcd__WatchCreateRequest  create;

    etcd__watch_request__init(&request);
    etcd__watch_create_request__init(&create);

    create.key = ngx_etcd_bytes(key);
    create.range_end = ngx_etcd_bytes(range_end);
    create.start_revision = revision;
    create.progress_notify = 1;
    create.fragment = 1;

    request.request_union_case =
                             ETCD__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    request.create_request = &create;

    return ngx_etcd_grpc_send(call, &request.base);
}


ngx_int_t
ngx_etcd_watch_request_cancel(ngx_etcd_grpc_call_t *call, int64_t id)
{
    Etcd__WatchRequest        request;
    Etcd__WatchCancelRequest  cancel;

    etcd__watch_request__init(&request);
    etcd__watch_cancel_request__init(&cancel);

    cancel.watch_id = id;

    request.request_union_case =
                             ETCD__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST;
    request.cancel_request = &cancel;

    return ngx_etcd_grpc_send(call, &request.base);
}


ngx_int_t
ngx_etcd_watch_request_progress(ngx_etcd_grpc_call_t *call)
{
    Etcd__WatchRequest          request;
    Etcd__WatchProgressRequest  progress;

    etcd__watch_request__init(&request);
    etcd__watch_progress_request__init(&progress);

    request.request_union_case =
                           ETCD__WATCH_REQUEST__REQUEST_UNION_PROGRESS_REQUEST;
    request.progress_request = &progress;

    return ngx_etcd_grpc_send(call, &request.base);
}


ngx_etcd_grpc_status_e
ngx_etcd_watch_request_status(ngx_str_t *text)
{
    static struct {
        char                    *text;
        ngx_etcd_grpc_status_e   status;
    } reasons[] = {
        { "permission denied", NGX_ETCD_GRPC_PERMISSION_DENIED },
        { "PermissionDenied", NGX_ETCD_GRPC_PERMISSION_DENIED },
        { "invalid auth token", NGX_ETCD_GRPC_UNAUTHENTICATED },
        { "Unauthenticated", NGX_ETCD_GRPC_UNAUTHENTICATED },
        { "user name is empty", NGX_ETCD_GRPC_UNAUTHENTICATED },
        { "revision of auth store is old", NGX_ETCD_GRPC_UNAUTHENTICATED },
        { NULL, NGX_ETCD_GRPC_UNKNOWN }
    };

    ngx_uint_t  i;

    for (i = 0; reasons[i].text != NULL; i++) {
        if (text->len >= ngx_strlen(reasons[i].text)
            && ngx_strlcasestrn(text->data, text->data + text->len,
                                (u_char *) reasons[i].text,
                                ngx_strlen(reasons[i].text) - 1)
               != NULL)
        {
            break;
        }
    }

    return reasons[i].status;
}
