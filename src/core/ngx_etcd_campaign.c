
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_campaign.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_str.h>


static ngx_etcd_campaign_t *ngx_etcd_campaign_find_in(
    ngx_etcd_main_conf_t *emcf, ngx_str_t *name);
static ngx_int_t ngx_etcd_campaign_declare_one(ngx_etcd_campaign_t *campaign,
    ngx_etcd_zone_t *zone, ngx_etcd_zone_t *old);


ngx_etcd_campaign_t *
ngx_etcd_campaign_get(ngx_conf_t *cf, ngx_str_t *name)
{
    ngx_etcd_campaign_t   *campaign;
    ngx_etcd_main_conf_t  *emcf;

    emcf = ngx_etcd_conf_main(cf->cycle);

    campaign = ngx_etcd_campaign_find_in(emcf, name);

    if (campaign != NULL) {
        return campaign;
    }

    campaign = ngx_pcalloc(cf->pool, sizeof(ngx_etcd_campaign_t));
    if (campaign == NULL) {
        return NULL;
    }

    campaign->kind = NGX_ETCD_ELECTION_SLOT_ELECTION;
    campaign->name = *name;

    campaign->file = cf->conf_file->file.name.data;
    campaign->line = cf->conf_file->line;

    return (ngx_etcd_conf_push(&emcf->elections, campaign) == NGX_OK) ? campaign
                                                                      : NULL;
}


static ngx_etcd_campaign_t *
ngx_etcd_campaign_find_in(ngx_etcd_main_conf_t *emcf, ngx_str_t *name)
{
    ngx_uint_t             i;
    ngx_etcd_campaign_t  **campaigns;

    campaigns = emcf->elections.elts;

    for (i = 0; i < emcf->elections.nelts; i++) {

        /* case-insensitive, like variables */

        if (ngx_etcd_str_alike(&campaigns[i]->name, name)) {
            return campaigns[i];
        }
    }

    return NULL;
}


ngx_int_t
ngx_etcd_campaign_check(ngx_etcd_main_conf_t *emcf, ngx_log_t *log)
{
    ngx_uint_t             i;
    ngx_etcd_campaign_t  **campaigns;

    campaigns = emcf->elections.elts;

    for (i = 0; i < emcf->elections.nelts; i++) {

        if (campaigns[i]->cluster == NULL) {
            ngx_log_error(NGX_LOG_EMERG, log, 0,
                          "unknown election \"%V\" in %s:%ui: no \"etcd\" "
                          "block has such an \"election\"",
                          &campaigns[i]->name, campaigns[i]->file,
                          campaigns[i]->line);
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_campaign_declare(ngx_etcd_conf_t *ecf, ngx_etcd_zone_t *old)
{
    ngx_uint_t             i;
    ngx_etcd_campaign_t  **campaigns;

    campaigns = ecf->campaigns.elts;

    for (i = 0; i < ecf->campaigns.nelts; i++) {
        if (ngx_etcd_campaign_declare_one(campaigns[i], &ecf->zone, old)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* Another namespace means another key. */

static ngx_int_t
ngx_etcd_campaign_declare_one(ngx_etcd_campaign_t *campaign,
    ngx_etcd_zone_t *zone, ngx_etcd_zone_t *old)
{
    u_char                    *p;
    u_char                     buf[2 * NGX_ETCD_ELECTION_SLOT_MAX_KEY];
    ngx_str_t                 *ns, key;
    ngx_etcd_election_slot_t  *slot;

    ns = &campaign->cluster->client.key_namespace;

    p = ngx_snprintf(buf, sizeof(buf), "%V%V", ns, &campaign->key);

    key.data = buf;
    key.len = p - buf;

    slot = ngx_etcd_election_slot_declare(zone, campaign->kind, &key);
    if (slot == NULL) {
        return NGX_ERROR;
    }

    campaign->slot = slot;
    campaign->id = slot->object.id;

    return (old != NULL) ? ngx_etcd_election_slot_inherit(slot, old) : NGX_OK;
}


ngx_etcd_campaign_t *
ngx_etcd_campaign_find(ngx_str_t *name)
{
    return ngx_etcd_campaign_find_in(ngx_etcd_conf_main(ngx_cycle), name);
}


ngx_uint_t
ngx_etcd_campaign_leads(ngx_etcd_campaign_t *campaign)
{
    uint64_t  until;

    until = ngx_etcd_election_slot_until(campaign->slot, campaign->id);

    /* load "until" before the clock: the process may be stopped in between */

    return until != 0 && ngx_etcd_clock() < until;
}


/*
 * If the term is the same before and after the clock was read, the instance
 * leads in that term.
 */

int64_t
ngx_etcd_campaign_term(ngx_etcd_campaign_t *campaign)
{
    int64_t  term;

    term = ngx_etcd_election_slot_term(campaign->slot, campaign->id);

    if (!ngx_etcd_campaign_leads(campaign)) {
        return 0;
    }

    return (term == ngx_etcd_election_slot_term(campaign->slot, campaign->id))
           ? term : 0;
}


int64_t
ngx_etcd_campaign_remaining(ngx_etcd_campaign_t *campaign,
    ngx_etcd_election_slot_view_t *view)
{
    uint64_t  until, now;

    until = ngx_etcd_election_slot_until(campaign->slot, campaign->id);
    now = ngx_etcd_clock();

    if (until <= now) {
        ngx_etcd_election_slot_ask(campaign->slot, now);
        until = view->expires;
    }

    return (now < until) ? (int64_t) (until - now) : -1;
}


ngx_int_t
ngx_etcd_campaign_leader(ngx_etcd_campaign_t *campaign,
    ngx_etcd_election_slot_view_t *view)
{
    int64_t  age;

    /* first: the view is then as new as the proof, or newer */

    age = ngx_etcd_zone_since(&campaign->slot->verified);

    if (ngx_etcd_election_slot_view(campaign->slot, campaign->id,
                                    view) != NGX_OK
        || view->created == 0)
    {
        return NGX_DECLINED;
    }

    if (ngx_etcd_campaign_leads(campaign)) {
        return NGX_OK;
    }

    return (age >= 0 && age <= (int64_t) campaign->ttl * 1000)
           ? NGX_OK : NGX_DECLINED;
}
