
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_quorum_read.h>


static void
ngx_etcd_quorum_read_done(ngx_etcd_stream_range_t *range,
    ngx_etcd_grpc_status_e status, ngx_str_t *text,
    Etcd__RangeResponse *response)
{
    Etcd__ResponseHeader    *header;
    ngx_etcd_quorum_read_t  *read;

    read = range->data;

    if (status == NGX_ETCD_GRPC_OK) {
        header = response->header;

        read->cluster_id = (header != NULL) ? header->cluster_id : 0;
        read->raft_term = (header != NULL) ? header->raft_term : 0;
        read->created = (response->n_kvs != 0)
                        ? response->kvs[0]->create_revision : 0;
    }

    read->done(read, status, text);
}


ngx_int_t
ngx_etcd_quorum_read_start(ngx_etcd_quorum_read_t *read)
{
    Etcd__RangeRequest  request;

    etcd__range_request__init(&request);

    request.key = ngx_etcd_bytes(&read->key);
    request.keys_only = 1;

    read->range.cluster = read->cluster;
    read->range.done = ngx_etcd_quorum_read_done;
    read->range.data = read;

    return ngx_etcd_stream_range_start(&read->range, &request);
}


void
ngx_etcd_quorum_read_cancel(ngx_etcd_quorum_read_t *read)
{
    ngx_etcd_stream_range_cancel(&read->range);
}
