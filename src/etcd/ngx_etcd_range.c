
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_range.h>


static void
ngx_etcd_range_done(ngx_etcd_unary_t *unary, ngx_etcd_grpc_status_e status,
    ngx_str_t *text, ProtobufCMessage *response, ngx_pool_t *pool)
{
    ngx_etcd_range_t  *range = unary->data;

    if (status == NGX_ETCD_GRPC_OK && !range->request.serializable) {
        ngx_etcd_history_check(unary->cluster,
                               ((Etcd__RangeResponse *) response)->header,
                               &unary->mark);
    }

    range->done(range, status, text, (Etcd__RangeResponse *) response, pool);
}


void
ngx_etcd_range_start(ngx_etcd_range_t *range)
{
    ngx_etcd_unary_t  *unary;

    unary = &range->unary;

    unary->cluster = range->cluster;
    unary->method = "/etcdserverpb.KV/Range";
    unary->name = "range";
    unary->request = &range->request.base;
    unary->response = &etcd__range_response__descriptor;
    unary->idempotent = 1;
    unary->done = ngx_etcd_range_done;
    unary->data = range;

    ngx_etcd_unary_start(unary);
}


void
ngx_etcd_range_cancel(ngx_etcd_range_t *range)
{
    ngx_etcd_unary_cancel(&range->unary);
}


ngx_str_t
ngx_etcd_range_prefix_end(ngx_pool_t *pool, ngx_str_t *prefix)
{
    size_t     n;
    ngx_str_t  end;

    end.len = 0;
    end.data = ngx_pnalloc(pool, ngx_max(prefix->len, 1));

    if (end.data == NULL) {
        return end;
    }

    ngx_memcpy(end.data, prefix->data, prefix->len);

    for (n = prefix->len; n > 0; n--) {

        if (end.data[n - 1] != 0xff) {
            end.data[n - 1]++;
            end.len = n;
            return end;
        }
    }

    /* all bytes are 0xff: "\0" means the end of the key space to etcd */

    end.data[0] = '\0';
    end.len = 1;

    return end;
}
