
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_connect.h>
#include <ngx_etcd_require_leader.h>
#include <ngx_etcd_compat.h>
#include <ngx_etcd_option.h>
#include <ngx_etcd_variable.h>


static void
ngx_etcd_admission_cleanup(void *data)
{
    /* the handler itself is the mark by which admissions are found */
}


ngx_etcd_admission_t *
ngx_etcd_admission_find(ngx_pool_t *pool, void *owner,
    ngx_etcd_campaign_t *campaign)
{
    ngx_pool_cleanup_t    *cln;
    ngx_etcd_admission_t  *admission;

    for (cln = pool->cleanup; cln != NULL; cln = cln->next) {

        if (cln->handler != ngx_etcd_admission_cleanup) {
            continue;
        }

        admission = cln->data;

        if (admission->owner == owner && admission->campaign == campaign) {
            return admission;
        }
    }

    return NULL;
}


/* "term" is that of the admission, which has ended; 0: there was none. */

static void
ngx_etcd_require_leader_refused(ngx_etcd_campaign_t *campaign, int64_t term,
    ngx_pool_t *pool, ngx_log_t *log)
{
    ngx_uint_t  refused;

    ngx_etcd_refusal_set(pool, NGX_ETCD_REFUSAL_NOT_LEADER);

    refused = ngx_etcd_refusal_due(&campaign->refusals);

    if (refused == 0) {
        return;
    }

    if (term == 0) {
        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "etcd cluster \"%V\": %V: this nginx does not lead; "
                      "%ui refused", &campaign->cluster->name,
                      &campaign->label, refused);

    } else {
        ngx_log_error(NGX_LOG_ERR, log, 0,
                      "etcd cluster \"%V\": %V: the term of revision %L has "
                      "ended; %ui refused", &campaign->cluster->name,
                      &campaign->label, term, refused);
    }
}


ngx_uint_t
ngx_etcd_admission_valid(ngx_etcd_admission_t *admission, ngx_log_t *log)
{
    if (ngx_etcd_campaign_term(admission->campaign, NULL) == admission->term) {
        return 1;
    }

    ngx_etcd_require_leader_refused(admission->campaign, admission->term,
                                    admission->pool, log);

    return 0;
}


/* the wrapped functions and data of a balancer */

typedef struct {
    NGX_ETCD_PEER_HEAD
    ngx_etcd_admission_t            *admission;
    void                           (*refuse)(void *data);
    void                            *refused;      /* data of refuse() */
    void                            *data;
    ngx_event_get_peer_pt            get;
    ngx_event_free_peer_pt           free;
    ngx_event_notify_peer_pt         notify;
#if (NGX_SSL)
    ngx_event_set_peer_session_pt    set_session;
    ngx_event_save_peer_session_pt   save_session;
#endif
} ngx_etcd_require_leader_peer_t;


static ngx_etcd_option_t  ngx_etcd_require_leader_options[] = {

    { .name = ngx_string("status="), .type = NGX_ETCD_OPTION_NUMBER,
      .offset = offsetof(ngx_etcd_require_leader_t, status),
      .min = 400, .max = 599,
      .otherwise = "it must be between 400 and 599" },

    ngx_etcd_null_option
};


void
ngx_etcd_require_leader_init(ngx_etcd_require_leader_t *require)
{
    require->campaign = NGX_CONF_UNSET_PTR;
    require->status = NGX_ETCD_REQUIRE_LEADER_STATUS;
}


void
ngx_etcd_require_leader_merge(ngx_etcd_require_leader_t *require,
    ngx_etcd_require_leader_t *prev)
{
    if (require->campaign != NGX_CONF_UNSET_PTR) {
        return;
    }

    *require = *prev;

    if (require->campaign == NGX_CONF_UNSET_PTR) {
        require->campaign = NULL;
    }
}


char *
ngx_etcd_require_leader_require(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char  *p = conf;

    ngx_str_t                  *value;
    ngx_etcd_require_leader_t  *require;

    require = (ngx_etcd_require_leader_t *) (p + cmd->offset);

    if (require->campaign != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (ngx_strcmp(value[1].data, "off") == 0 && cf->args->nelts == 2) {
        require->campaign = NULL;
        return NGX_CONF_OK;
    }

    require->campaign = ngx_etcd_campaign_get(cf, &value[1]);
    if (require->campaign == NULL) {
        return NGX_CONF_ERROR;
    }

    return (ngx_etcd_option_read(cf, 2, ngx_etcd_require_leader_options, NULL,
                                 require)
            == NGX_OK)
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


ngx_int_t
ngx_etcd_require_leader_enter(ngx_etcd_require_leader_t *require,
    ngx_etcd_admission_t *admission, ngx_pool_t *pool, void *owner,
    ngx_log_t *log)
{
    int64_t              term;
    ngx_pool_cleanup_t  *cln;

    if (admission != NULL) {
        return ngx_etcd_admission_valid(admission, log) ? NGX_OK
                                                        : NGX_DECLINED;
    }

    term = ngx_etcd_campaign_term(require->campaign, NULL);

    if (term == 0) {
        ngx_etcd_require_leader_refused(require->campaign, 0, pool, log);
        return NGX_DECLINED;
    }

    cln = ngx_pool_cleanup_add(pool, sizeof(ngx_etcd_admission_t));
    if (cln == NULL) {
        return NGX_ERROR;
    }

    cln->handler = ngx_etcd_admission_cleanup;

    admission = cln->data;

    admission->owner = owner;
    admission->pool = pool;
    admission->campaign = require->campaign;
    admission->term = term;

    return NGX_OK;
}


/* Called before each try. */

static ngx_int_t
ngx_etcd_require_leader_get(ngx_peer_connection_t *pc, void *data)
{
    ngx_etcd_require_leader_peer_t *peer = data;

    ngx_int_t  rc;

    if (ngx_etcd_admission_valid(peer->admission, pc->log)) {
        rc = peer->get(pc, peer->data);

        ngx_etcd_peer_head_copy(peer, peer->data);

        return rc;
    }

    if (peer->refuse != NULL) {
        peer->refuse(peer->refused);
    }

    return NGX_ERROR;
}


static void
ngx_etcd_require_leader_free(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t state)
{
    ngx_etcd_require_leader_peer_t *peer = data;

    peer->free(pc, peer->data, state);
}


static void
ngx_etcd_require_leader_notify(ngx_peer_connection_t *pc, void *data,
    ngx_uint_t type)
{
    ngx_etcd_require_leader_peer_t *peer = data;

    peer->notify(pc, peer->data, type);
}


#if (NGX_SSL)

static ngx_int_t
ngx_etcd_require_leader_set_session(ngx_peer_connection_t *pc, void *data)
{
    ngx_etcd_require_leader_peer_t *peer = data;

    return peer->set_session(pc, peer->data);
}


static void
ngx_etcd_require_leader_save_session(ngx_peer_connection_t *pc, void *data)
{
    ngx_etcd_require_leader_peer_t *peer = data;

    peer->save_session(pc, peer->data);
}

#endif


ngx_int_t
ngx_etcd_require_leader_wrap(ngx_etcd_admission_t *admission,
    ngx_peer_connection_t *pc, ngx_pool_t *pool, void (*refuse)(void *data),
    void *data)
{
    ngx_etcd_require_leader_peer_t  *peer;

    peer = ngx_palloc(pool, sizeof(ngx_etcd_require_leader_peer_t));
    if (peer == NULL) {
        return NGX_ERROR;
    }

    peer->admission = admission;
    peer->refuse = refuse;
    peer->refused = data;

    ngx_etcd_peer_head_copy(peer, pc->data);

    peer->data = pc->data;
    peer->get = pc->get;
    peer->free = pc->free;

    pc->data = peer;
    pc->get = ngx_etcd_require_leader_get;
    pc->free = ngx_etcd_require_leader_free;

    if (pc->notify != NULL) {
        peer->notify = pc->notify;
        pc->notify = ngx_etcd_require_leader_notify;
    }

#if (NGX_SSL)
    peer->set_session = pc->set_session;
    peer->save_session = pc->save_session;

    pc->set_session = ngx_etcd_require_leader_set_session;
    pc->save_session = ngx_etcd_require_leader_save_session;
#endif

    return NGX_OK;
}


/*
 * After the end of its term, a former leader is shown by the value with which
 * it campaigns.
 */

static ngx_int_t
ngx_etcd_election_variable_leader(ngx_str_t *name,
    ngx_etcd_campaign_t *campaign, ngx_etcd_admission_t *admission,
    ngx_variable_value_t *v, ngx_pool_t *pool)
{
    u_char                         *p;
    ngx_int_t                       rc;
    ngx_uint_t                      own;
    ngx_etcd_election_slot_view_t   view;

    rc = ngx_etcd_campaign_leader(campaign, &view, &own);

    if (admission != NULL
        && (rc != NGX_OK || view.created != admission->term))
    {
        ngx_etcd_variable_value(name, v, campaign->value.data,
                                campaign->value.len);
        return NGX_OK;
    }

    if (rc != NGX_OK) {
        return NGX_OK;
    }

    p = ngx_pnalloc(pool, ngx_max(view.value_len, 1));
    if (p == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(p, view.value, view.value_len);
    ngx_etcd_variable_value(name, v, p, view.value_len);

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_election_variable_is_leader(ngx_str_t *name,
    ngx_etcd_campaign_t *campaign, ngx_etcd_admission_t *admission,
    ngx_variable_value_t *v, ngx_pool_t *pool)
{
    if (admission != NULL || ngx_etcd_campaign_term(campaign, NULL) != 0) {
        ngx_etcd_variable_value(name, v, (u_char *) "1", 1);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_election_variable_term(ngx_str_t *name, ngx_etcd_campaign_t *campaign,
    ngx_etcd_admission_t *admission, ngx_variable_value_t *v,
    ngx_pool_t *pool)
{
    ngx_uint_t                     own;
    ngx_etcd_election_slot_view_t  view;

    if (admission != NULL) {
        return ngx_etcd_variable_number(name, v, admission->term, pool);
    }

    if (ngx_etcd_campaign_leader(campaign, &view, &own) != NGX_OK) {
        return NGX_OK;
    }

    return ngx_etcd_variable_number(name, v, view.created, pool);
}


ngx_etcd_election_variable_t  ngx_etcd_election_variables[] = {

    { ngx_string("etcd_leader_"), ngx_etcd_election_variable_leader },

    { ngx_string("etcd_is_leader_"), ngx_etcd_election_variable_is_leader },

    { ngx_string("etcd_election_revision_"),
      ngx_etcd_election_variable_term },

    { ngx_null_string, NULL }
};


static ngx_etcd_election_variable_t *
ngx_etcd_election_variable_find(ngx_str_t *name, ngx_str_t *election)
{
    ngx_str_t                     *prefix;
    ngx_etcd_election_variable_t  *variable;

    for (variable = ngx_etcd_election_variables;
         variable->name.len != 0;
         variable++)
    {
        prefix = &variable->name;

        if (name->len > prefix->len
            && ngx_strncasecmp(name->data, prefix->data, prefix->len) == 0)
        {
            election->data = name->data + prefix->len;
            election->len = name->len - prefix->len;

            return variable;
        }
    }

    return NULL;
}


ngx_etcd_campaign_t *
ngx_etcd_election_variable_campaign(ngx_str_t *name)
{
    ngx_str_t  election;

    return (ngx_etcd_election_variable_find(name, &election) != NULL)
           ? ngx_etcd_campaign_find(ngx_etcd_conf_main(ngx_cycle), &election)
           : NULL;
}


ngx_int_t
ngx_etcd_election_variable_value(ngx_str_t *name, ngx_etcd_campaign_t *campaign,
    ngx_etcd_admission_t *admission, ngx_variable_value_t *v,
    ngx_pool_t *pool)
{
    ngx_str_t                      election;
    ngx_etcd_election_variable_t  *variable;

    v->not_found = 1;

    variable = ngx_etcd_election_variable_find(name, &election);

    return variable->get(name, campaign, admission, v, pool);
}


ngx_int_t
ngx_etcd_election_variable_used(ngx_conf_t *cf, ngx_array_t *variables)
{
    u_char      *p;
    ngx_str_t   *name, election;
    ngx_uint_t   i;

    p = variables->elts;

    for (i = 0; i < variables->nelts; i++) {
        name = (ngx_str_t *) (p + i * variables->size);

        if (ngx_etcd_election_variable_find(name, &election) != NULL
            && ngx_etcd_campaign_get(cf, &election) == NULL)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}
