
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_etcd_reserve.h>


static ngx_stream_session_t  *ngx_stream_etcd_reserve_session;
static ngx_etcd_peer_data_t  *ngx_stream_etcd_reserve_pd;


ngx_int_t
ngx_stream_etcd_reserve(ngx_stream_session_t *s, ngx_etcd_peer_data_t *pd)
{
    ngx_int_t              rc;
    ngx_peer_connection_t  pc;

    ngx_stream_etcd_reserve_release();

    ngx_memzero(&pc, sizeof(ngx_peer_connection_t));

    pc.log = s->connection->log;

    ngx_etcd_pick_restart(&pd->pick);

    rc = ngx_etcd_pick_early(&pc, &pd->pick);

    if (rc == NGX_OK) {
        ngx_stream_etcd_reserve_session = s;
        ngx_stream_etcd_reserve_pd = pd;
    }

    return rc;
}


ngx_etcd_peer_data_t *
ngx_stream_etcd_reserve_take(ngx_stream_session_t *s,
    ngx_etcd_upstream_t *upstream)
{
    if (ngx_stream_etcd_reserve_session != s
        || ngx_stream_etcd_reserve_pd->upstream != upstream)
    {
        return NULL;
    }

    ngx_stream_etcd_reserve_session = NULL;

    return ngx_stream_etcd_reserve_pd;
}


void
ngx_stream_etcd_reserve_release(void)
{
    ngx_etcd_pick_t  *pick;

    if (ngx_stream_etcd_reserve_session == NULL) {
        return;
    }

    ngx_stream_etcd_reserve_session = NULL;

    pick = &ngx_stream_etcd_reserve_pd->pick;

    pick->early = 0;
    ngx_etcd_pick_undo(pick);
}


void
ngx_stream_etcd_reserve_forget(ngx_stream_session_t *s)
{
    if (ngx_stream_etcd_reserve_session == s) {
        ngx_stream_etcd_reserve_session = NULL;
    }
}
