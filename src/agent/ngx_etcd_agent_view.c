
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_agent_view.h>
#include <ngx_etcd_auth.h>


#if (NGX_ETCD_ENDPOINTS_MAX > NGX_ETCD_ZONE_MAX_ENDPOINTS)
#error the zone has no room for all endpoints
#endif


ngx_etcd_agent_state_e
ngx_etcd_agent_view_state(ngx_etcd_cluster_t *cluster)
{
    if (cluster->streams->state != NGX_ETCD_CHANNEL_READY) {
        return NGX_ETCD_AGENT_CONNECTING;
    }

    return cluster->auth->unauthorized ? NGX_ETCD_AGENT_UNAUTHORIZED
                                       : NGX_ETCD_AGENT_CONNECTED;
}


ngx_int_t
ngx_etcd_agent_view_endpoints(ngx_etcd_zone_t *zone,
    ngx_etcd_endpoints_t *known)
{
    ngx_uint_t                 i;
    ngx_etcd_place_t          *place;
    ngx_etcd_zone_endpoint_t  *ep;
    ngx_etcd_zone_endpoints_t  endpoints;

    ngx_memzero(&endpoints, sizeof(ngx_etcd_zone_endpoints_t));

    endpoints.current = -1;

    for (i = 0; i < NGX_ETCD_ENDPOINTS_MAX; i++) {
        place = &known->places[i];

        if (place->endpoint == NULL) {
            continue;
        }

        if (known->current == (ngx_int_t) i) {
            endpoints.current = endpoints.n;
        }

        ep = &endpoints.list[endpoints.n++];

        ep->state = ngx_etcd_endpoints_state(place);
        ep->learned = ngx_etcd_endpoints_learned(place);
        ep->url_len = ngx_min(place->endpoint->url.len, NGX_ETCD_ZONE_URL_LEN);

        ngx_memcpy(ep->url, place->endpoint->url.data, ep->url_len);
    }

    return ngx_etcd_zone_set_endpoints(zone, &endpoints);
}
