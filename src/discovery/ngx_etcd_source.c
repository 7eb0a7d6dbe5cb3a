
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_format.h>
#include <ngx_etcd_multi_key.h>
#include <ngx_etcd_patroni.h>
#include <ngx_etcd_single_key.h>
#include <ngx_etcd_source.h>


/* by ngx_etcd_leader_format_e */

static const ngx_etcd_leader_source_t  *ngx_etcd_source_leaders[] = {
    &ngx_etcd_leader_election,
    &ngx_etcd_leader_key,
    &ngx_etcd_patroni_source,
    &ngx_etcd_leader_vitess,
};


const ngx_etcd_source_t *
ngx_etcd_source(ngx_etcd_service_conf_t *conf)
{
    if (conf->leader != NULL) {
        return &ngx_etcd_source_leaders[conf->leader->format]->source;
    }

    return ngx_etcd_format_grouped(conf->member.format)
           ? &ngx_etcd_multi_key_source : &ngx_etcd_single_key_source;
}


int64_t
ngx_etcd_source_staleness(ngx_etcd_service_conf_t *conf,
    ngx_etcd_member_set_t *set)
{
    return conf->source->verified ? ngx_etcd_member_set_staleness(set)
                                  : ngx_etcd_zone_staleness(conf->zone);
}
