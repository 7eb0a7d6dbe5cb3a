
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_campaign.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_str.h>


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


ngx_etcd_campaign_t *
ngx_etcd_campaign_find(ngx_str_t *name)
{
    return ngx_etcd_campaign_find_in(ngx_etcd_conf_main(ngx_cycle), name);
}


/*
 * The owner writes the key's create revision before "until", and ends the
 * former term before either: if the revision is the same before and after
 * "until" was read, both belong together.
 */

int64_t
ngx_etcd_campaign_term(ngx_etcd_campaign_t *campaign, uint64_t *until)
{
    int64_t                    term;
    uint64_t                   end;
    ngx_etcd_election_slot_t  *slot;

    slot = campaign->slot;

    term = ngx_etcd_election_slot_created(slot);
    end = ngx_etcd_election_slot_until(slot, campaign->id);

    /* load "until" before the clock: the process may be stopped in between */

    if (end == 0 || end <= ngx_etcd_clock()
        || ngx_etcd_election_slot_created(slot) != term)
    {
        return 0;
    }

    if (until != NULL) {
        *until = end;
    }

    return term;
}


ngx_int_t
ngx_etcd_campaign_leader(ngx_etcd_campaign_t *campaign,
    ngx_etcd_election_slot_view_t *view, ngx_uint_t *own)
{
    int64_t    age, term, lease;
    uint64_t   until;
    ngx_int_t  rc;

    term = ngx_etcd_campaign_term(campaign, &until);

    /* before the view: it is then as new as the proof, or newer */

    age = ngx_etcd_zone_since(&campaign->slot->verified);

    rc = ngx_etcd_election_slot_view(campaign->slot, campaign->id, view);

    *own = (term != 0);

    if (*own) {
        if (rc != NGX_OK || view->created != term) {

            /* candidates cannot be read, the leader is known all the same */

            lease = __atomic_load_n(&campaign->slot->hold.lease,
                                    __ATOMIC_RELAXED);

            view->created = term;
            view->key_len = ngx_snprintf(view->key,
                                         NGX_ETCD_ELECTION_SLOT_MAX_KEY,
                                         "%V/%xL", &campaign->key, lease)
                            - view->key;
            view->value_len = ngx_min(campaign->value.len,
                                      NGX_ETCD_ELECTION_SLOT_MAX_VALUE);

            ngx_memcpy(view->value, campaign->value.data, view->value_len);
        }

        view->expires = until;

        return NGX_OK;
    }

    return (rc == NGX_OK && view->created != 0
            && age >= 0 && age <= (int64_t) campaign->ttl * 1000)
           ? NGX_OK : NGX_DECLINED;
}


int64_t
ngx_etcd_campaign_remaining(ngx_etcd_campaign_t *campaign,
    ngx_etcd_election_slot_view_t *view, ngx_uint_t own)
{
    uint64_t  now;

    now = ngx_etcd_clock();

    if (!own) {
        ngx_etcd_election_slot_ask(campaign->slot, now);
    }

    return (now < view->expires) ? (int64_t) (view->expires - now) : -1;
}
