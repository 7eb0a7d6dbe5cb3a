
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_campaign.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_lease.h>
#include <ngx_etcd_option.h>
#include <ngx_etcd_str.h>


ngx_etcd_campaign_t *
ngx_etcd_campaign_find(ngx_etcd_main_conf_t *emcf, ngx_str_t *name)
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

    campaign = ngx_etcd_campaign_find(emcf, name);

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
ngx_etcd_campaign_declare(ngx_etcd_conf_t *ecf, ngx_etcd_zone_t *old)
{
    u_char                    *p;
    u_char                     buf[2 * NGX_ETCD_ELECTION_SLOT_MAX_KEY];
    ngx_str_t                  key;
    ngx_uint_t                 i;
    ngx_etcd_campaign_t      **campaigns;
    ngx_etcd_election_slot_t  *slot;

    campaigns = ecf->campaigns.elts;

    for (i = 0; i < ecf->campaigns.nelts; i++) {

        /* another namespace means another key */

        p = ngx_snprintf(buf, sizeof(buf), "%V%V", &ecf->client.key_namespace,
                         &campaigns[i]->key);

        key.data = buf;
        key.len = p - buf;

        slot = ngx_etcd_election_slot_declare(&ecf->zone, campaigns[i]->kind,
                                              &key, old);
        if (slot == NULL) {
            return NGX_ERROR;
        }

        campaigns[i]->slot = slot;
        campaigns[i]->id = slot->object.id;
    }

    return NGX_OK;
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


/* leaves room for a slash and a lease id */

#define NGX_ETCD_CAMPAIGN_MAX_KEY  (NGX_ETCD_ELECTION_SLOT_MAX_KEY - 32)

#define NGX_ETCD_CAMPAIGN_TTL      10      /* seconds */


static char *ngx_etcd_campaign_election(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_etcd_campaign_register(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


static ngx_command_t  ngx_etcd_campaign_commands[] = {

    { ngx_string("election"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_2MORE,
      ngx_etcd_campaign_election,
      0,
      0,
      NULL },

    { ngx_string("register"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_2MORE,
      ngx_etcd_campaign_register,
      0,
      0,
      NULL },

      ngx_null_command
};


static ngx_core_module_t  ngx_etcd_campaign_module_ctx = {
    ngx_string("etcd_campaign"),
    NULL,
    NULL
};


ngx_module_t  ngx_etcd_campaign_module = {
    NGX_MODULE_V1,
    &ngx_etcd_campaign_module_ctx,         /* module context */
    ngx_etcd_campaign_commands,            /* module directives */
    NGX_CORE_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


/*
 * Expands $hostname, the only variable supported.  Any other "$" is refused if
 * strict is set, and otherwise kept: a key may have one.
 */

static char *
ngx_etcd_campaign_expand(ngx_conf_t *cf, ngx_str_t *text, ngx_uint_t strict,
    ngx_str_t *expanded)
{
    u_char     *p, *last, *dst;
    size_t      len, word;
    ngx_str_t  *hostname;

    hostname = &cf->cycle->hostname;
    word = sizeof("$hostname") - 1;

    len = text->len + (text->len / word + 1) * hostname->len;

    dst = ngx_pnalloc(cf->pool, ngx_max(len, 1));
    if (dst == NULL) {
        return NGX_CONF_ERROR;
    }

    expanded->data = dst;

    for (p = text->data, last = p + text->len; p < last; /* void */ ) {

        if (*p != '$') {
            *dst++ = *p++;
            continue;
        }

        if ((size_t) (last - p) < word
            || ngx_strncmp(p, "$hostname", word) != 0)
        {
            if (!strict) {
                *dst++ = *p++;
                continue;
            }

            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "unknown variable in \"value=%V\", only "
                               "$hostname is supported", text);
            return NGX_CONF_ERROR;
        }

        dst = ngx_cpymem(dst, hostname->data, hostname->len);
        p += word;
    }

    expanded->len = dst - expanded->data;

    return NGX_CONF_OK;
}


static char *
ngx_etcd_campaign_value(ngx_conf_t *cf, ngx_etcd_option_t *option,
    ngx_str_t *value, void *conf)
{
    ngx_etcd_campaign_t *campaign = conf;

    char  *rv;

    rv = ngx_etcd_campaign_expand(cf, value, 1, &campaign->value);

    return (rv == NGX_CONF_OK
            && campaign->value.len > NGX_ETCD_ELECTION_SLOT_MAX_VALUE)
           ? "it is too long" : rv;
}


static ngx_etcd_option_t  ngx_etcd_campaign_options[] = {

    { .name = ngx_string("value="), .set = ngx_etcd_campaign_value },

    { .name = ngx_string("ttl="), .type = NGX_ETCD_OPTION_SECONDS,
      .offset = offsetof(ngx_etcd_campaign_t, ttl),
      .min = NGX_ETCD_LEASE_MIN_TTL, .max = NGX_ETCD_LEASE_MAX_TTL,
      .otherwise = "it must be a time from 2s to 1d" },

    ngx_etcd_null_option
};


/*
 * Finds two campaigns with the same key, and a registration below the prefix
 * of an election.
 */

static ngx_int_t
ngx_etcd_campaign_conflict(ngx_etcd_conf_t *ecf, ngx_etcd_campaign_t *campaign,
    ngx_log_t *log)
{
    ngx_uint_t             i;
    ngx_etcd_campaign_t   *one, *two, **others;

    others = ecf->campaigns.elts;

    for (i = 0; i < ecf->campaigns.nelts; i++) {

        if (others[i]->kind == campaign->kind) {

            if (ngx_etcd_str_equal(&others[i]->key, &campaign->key)) {
                ngx_log_error(NGX_LOG_EMERG, log, 0,
                              "key \"%V\" is already used by %V in %s:%ui",
                              ngx_etcd_shown(&campaign->key),
                              &others[i]->label, campaign->file,
                              campaign->line);
                return NGX_ERROR;
            }

            continue;
        }

        one = others[i];
        two = campaign;

        if (one->kind != NGX_ETCD_ELECTION_SLOT_ELECTION) {
            one = campaign;
            two = others[i];
        }

        if (two->key.len > one->key.len
            && two->key.data[one->key.len] == '/'
            && ngx_memcmp(two->key.data, one->key.data, one->key.len) == 0)
        {
            ngx_log_error(NGX_LOG_EMERG, log, 0,
                          "key \"%V\" is below the prefix \"%V\" of an "
                          "election in %s:%ui", ngx_etcd_shown(&two->key),
                          ngx_etcd_shown(&one->key), campaign->file,
                          campaign->line);
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static char *
ngx_etcd_campaign_add(ngx_etcd_conf_t *ecf, ngx_etcd_campaign_t *campaign,
    char *what, ngx_str_t *name, ngx_cycle_t *cycle)
{
    u_char  *p;

    if (campaign->key.len == 0) {
        return (campaign->kind == NGX_ETCD_ELECTION_SLOT_ELECTION)
               ? "has an empty prefix" : "has an empty key";
    }

    if (campaign->key.len > NGX_ETCD_CAMPAIGN_MAX_KEY) {
        return "has a key that is too long";
    }

    p = ngx_pnalloc(cycle->pool, ngx_strlen(what) + name->len + 3);
    if (p == NULL) {
        return NGX_CONF_ERROR;
    }

    campaign->label.data = p;
    campaign->label.len = ngx_sprintf(p, "%s \"%V\"", what, name) - p;

    if (ngx_etcd_campaign_conflict(ecf, campaign, cycle->log) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    campaign->cluster = ecf;

    if (campaign->kind == NGX_ETCD_ELECTION_SLOT_ELECTION
        && campaign->share == NULL)
    {
        ecf->coordinates = 1;
    }

    return (ngx_etcd_conf_push(&ecf->campaigns, campaign) == NGX_OK)
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


/* The election of who observes the members of an upstream. */

static ngx_int_t
ngx_etcd_campaign_observer(ngx_etcd_upstream_t *upstream, ngx_cycle_t *cycle)
{
    char                     *fault;
    ngx_etcd_campaign_t      *campaign;
    ngx_etcd_service_conf_t  *service;

    service = upstream->service;

    campaign = ngx_pcalloc(cycle->pool, sizeof(ngx_etcd_campaign_t));
    if (campaign == NULL) {
        return NGX_ERROR;
    }

    campaign->kind = NGX_ETCD_ELECTION_SLOT_ELECTION;
    campaign->share = upstream->check->share;
    campaign->key = campaign->share->key;
    campaign->ttl = NGX_ETCD_CHECK_SHARE_TTL;
    campaign->file = upstream->file;
    campaign->line = upstream->line;

    if (ngx_etcd_catalog_of(service) != NULL) {
        fault = "has \"share=\" for a prefix with variables";

    } else if (service->line.next != NULL) {
        fault = "has \"share=\" for several \"etcd_members\"";

    } else {
        fault = ngx_etcd_campaign_add(upstream->cluster, campaign, "observer",
                                      &service->name, cycle);
    }

    if (fault == NGX_CONF_OK) {
        return NGX_OK;
    }

    if (fault != NGX_CONF_ERROR) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, 0,
                      "\"etcd_check\" %s in %s:%ui",
                      fault, upstream->file, upstream->line);
    }

    return NGX_ERROR;
}


ngx_int_t
ngx_etcd_campaign_check(ngx_etcd_main_conf_t *emcf, ngx_cycle_t *cycle)
{
    ngx_uint_t             i;
    ngx_etcd_upstream_t  **upstreams;
    ngx_etcd_campaign_t  **campaigns;

    campaigns = emcf->elections.elts;

    for (i = 0; i < emcf->elections.nelts; i++) {

        if (campaigns[i]->cluster == NULL) {
            ngx_log_error(NGX_LOG_EMERG, cycle->log, 0,
                          "unknown election \"%V\" in %s:%ui: no \"etcd\" "
                          "block has such an \"election\"",
                          &campaigns[i]->name, campaigns[i]->file,
                          campaigns[i]->line);
            return NGX_ERROR;
        }
    }

    upstreams = emcf->upstreams.elts;

    for (i = 0; i < emcf->upstreams.nelts; i++) {

        if (upstreams[i]->check != NULL
            && upstreams[i]->check->share != NULL
            && ngx_etcd_campaign_observer(upstreams[i], cycle) != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static char *
ngx_etcd_campaign_election(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_etcd_conf_t *ecf = conf;

    ngx_str_t            *value;
    ngx_etcd_campaign_t  *campaign;

    value = cf->args->elts;

    /* the name becomes a part of variable names */

    if (!ngx_etcd_str_is_word(&value[1])) {
        return "needs a name of letters, digits and underscores";
    }

    campaign = ngx_etcd_campaign_get(cf, &value[1]);
    if (campaign == NULL) {
        return NGX_CONF_ERROR;
    }

    if (campaign->cluster != NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "duplicate election \"%V\"",
                           &value[1]);
        return NGX_CONF_ERROR;
    }

    /* candidates are PREFIX/LEASE, with or without a slash in the directive */

    campaign->key = value[2];

    if (campaign->key.len != 0
        && campaign->key.data[campaign->key.len - 1] == '/')
    {
        campaign->key.len--;
    }

    campaign->file = cf->conf_file->file.name.data;
    campaign->line = cf->conf_file->line;
    campaign->value = cf->cycle->hostname;
    campaign->ttl = NGX_ETCD_CAMPAIGN_TTL;

    if (ngx_etcd_option_read(cf, 3, ngx_etcd_campaign_options, NULL, campaign)
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    /* the value is also the value of a variable */

    if (ngx_etcd_escape_has_control(campaign->value.data,
                                    campaign->value.len))
    {
        return "has a value with a control byte";
    }

    return ngx_etcd_campaign_add(ecf, campaign, "election", &value[1],
                                 cf->cycle);
}


static char *
ngx_etcd_campaign_register(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_etcd_conf_t *ecf = conf;

    ngx_str_t            *value;
    ngx_etcd_campaign_t  *campaign;

    value = cf->args->elts;

    campaign = ngx_pcalloc(cf->pool, sizeof(ngx_etcd_campaign_t));
    if (campaign == NULL) {
        return NGX_CONF_ERROR;
    }

    campaign->kind = NGX_ETCD_ELECTION_SLOT_REGISTRATION;
    campaign->ttl = NGX_ETCD_CAMPAIGN_TTL;

    if (ngx_etcd_campaign_expand(cf, &value[1], 0, &campaign->key)
        != NGX_CONF_OK
        || ngx_etcd_option_read(cf, 2, ngx_etcd_campaign_options, NULL,
                                campaign)
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (campaign->value.data == NULL) {
        return "needs \"value=\"";
    }

    campaign->file = cf->conf_file->file.name.data;
    campaign->line = cf->conf_file->line;

    return ngx_etcd_campaign_add(ecf, campaign, "registration", &campaign->key,
                                 cf->cycle);
}
