
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_agent.h>
#include <ngx_etcd_campaign.h>
#include <ngx_etcd_conf.h>
#include <ngx_etcd_set_variable.h>
#include <ngx_etcd_ssl_module.h>
#include <ngx_etcd_state_file.h>
#include <ngx_etcd_upstream.h>
#include <ngx_etcd_wait.h>
#include <ngx_etcd_worker_locks.h>
#include <ngx_etcd_writable.h>
#include <ngx_etcd_zone.h>


#define NGX_ETCD_MIN_PING_INTERVAL  5000     /* below, etcd disconnects */
#define NGX_ETCD_MIN_MESSAGE_SIZE   65536


static void *ngx_etcd_create_conf(ngx_cycle_t *cycle);
static char *ngx_etcd_init_conf(ngx_cycle_t *cycle, void *conf);
static ngx_int_t ngx_etcd_init_module(ngx_cycle_t *cycle);
static ngx_int_t ngx_etcd_init_process(ngx_cycle_t *cycle);
static void ngx_etcd_exit_process(ngx_cycle_t *cycle);

static char *ngx_etcd_block(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
static char *ngx_etcd_cluster_id(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);
static char *ngx_etcd_zone_size(ngx_conf_t *cf, void *post, void *data);
static char *ngx_etcd_bounds(ngx_conf_t *cf, void *post, void *data);
static char *ngx_etcd_not_empty(ngx_conf_t *cf, void *post, void *data);


/* after nginx's own handlers: the bounds of a time or size, and what to say */

typedef struct {
    ngx_conf_post_handler_pt   post_handler;
    ngx_int_t                  min;
    ngx_int_t                  max;
    char                      *less;
    char                      *more;
} ngx_etcd_bounds_t;


static ngx_conf_post_t  ngx_etcd_zone_size_post = { ngx_etcd_zone_size };


static ngx_conf_post_t  ngx_etcd_not_empty_post = { ngx_etcd_not_empty };


static ngx_etcd_bounds_t  ngx_etcd_lock_ttl_bounds = {
    ngx_etcd_bounds, NGX_ETCD_LEASE_MIN_TTL, NGX_ETCD_LEASE_MAX_TTL,
    "must be at least 2s", "must be at most 86400s"
};


static ngx_etcd_bounds_t  ngx_etcd_ping_interval_bounds = {
    ngx_etcd_bounds, NGX_ETCD_MIN_PING_INTERVAL, NGX_MAX_INT_T_VALUE,
    "must be at least 5s: etcd closes the connections of clients that ping "
    "more often", NULL
};


static ngx_etcd_bounds_t  ngx_etcd_time_not_zero_bounds = {
    ngx_etcd_bounds, 1, NGX_MAX_INT_T_VALUE, "must not be 0", NULL
};


static ngx_etcd_bounds_t  ngx_etcd_message_size_bounds = {
    ngx_etcd_bounds, NGX_ETCD_MIN_MESSAGE_SIZE, NGX_MAX_INT_T_VALUE,
    "must be at least 64k: a key and its value are in one message", NULL
};


static ngx_conf_num_bounds_t  ngx_etcd_lock_waiters_bounds = {
    ngx_conf_check_num_bounds, 1, -1
};


static ngx_command_t  ngx_etcd_commands[] = {

    { ngx_string("etcd"),
      NGX_MAIN_CONF|NGX_CONF_BLOCK|NGX_CONF_NOARGS|NGX_CONF_TAKE1,
      ngx_etcd_block,
      0,
      0,
      NULL },

    { ngx_string("endpoints"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_1MORE,
      ngx_etcd_endpoint_list,
      0,
      0,
      NULL },

    { ngx_string("cluster_id"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_etcd_cluster_id,
      0,
      0,
      NULL },

    { ngx_string("resolver"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_1MORE,
      ngx_etcd_endpoint_resolver,
      0,
      0,
      NULL },

    { ngx_string("resolver_timeout"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      0,
      offsetof(ngx_etcd_conf_t, client.resolver_timeout),
      &ngx_etcd_time_not_zero_bounds },

    { ngx_string("auto_sync"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      0,
      offsetof(ngx_etcd_conf_t, client.auto_sync),
      NULL },

    { ngx_string("rebalance"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      0,
      offsetof(ngx_etcd_conf_t, client.rebalance),
      NULL },

    { ngx_string("namespace"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_str_slot,
      0,
      offsetof(ngx_etcd_conf_t, client.key_namespace),
      &ngx_etcd_not_empty_post },

    { ngx_string("user"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_str_slot,
      0,
      offsetof(ngx_etcd_conf_t, client.user),
      &ngx_etcd_not_empty_post },

    { ngx_string("password_file"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_etcd_credentials_file,
      0,
      0,
      NULL },

    { ngx_string("token_file"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_etcd_credentials_file,
      0,
      0,
      NULL },

    { ngx_string("connect_timeout"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      0,
      offsetof(ngx_etcd_conf_t, client.connect_timeout),
      &ngx_etcd_time_not_zero_bounds },

    { ngx_string("request_timeout"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      0,
      offsetof(ngx_etcd_conf_t, client.request_timeout),
      &ngx_etcd_time_not_zero_bounds },

    { ngx_string("ping_interval"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      0,
      offsetof(ngx_etcd_conf_t, client.ping_interval),
      &ngx_etcd_ping_interval_bounds },

    { ngx_string("ping_timeout"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      0,
      offsetof(ngx_etcd_conf_t, client.ping_timeout),
      &ngx_etcd_time_not_zero_bounds },

    { ngx_string("max_message_size"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_size_slot,
      0,
      offsetof(ngx_etcd_conf_t, client.max_message_size),
      &ngx_etcd_message_size_bounds },

    { ngx_string("audit_interval"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      0,
      offsetof(ngx_etcd_conf_t, client.audit_interval),
      NULL },

    { ngx_string("zone"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_size_slot,
      0,
      offsetof(ngx_etcd_conf_t, zone_size),
      &ngx_etcd_zone_size_post },

    { ngx_string("state_path"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_etcd_state_file_path,
      0,
      offsetof(ngx_etcd_conf_t, state_path),
      NULL },

    { ngx_string("lock_ttl"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_sec_slot,
      0,
      offsetof(ngx_etcd_conf_t, lock_ttl),
      &ngx_etcd_lock_ttl_bounds },

    { ngx_string("lock_waiters"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_num_slot,
      0,
      offsetof(ngx_etcd_conf_t, lock_waiters),
      &ngx_etcd_lock_waiters_bounds },

    { ngx_string("db_check"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_msec_slot,
      0,
      offsetof(ngx_etcd_conf_t, db_check),
      NULL },

    { ngx_string("write_check"),
      NGX_ETCD_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_str_array_slot,
      0,
      offsetof(ngx_etcd_conf_t, write_check),
      &ngx_etcd_not_empty_post },

      ngx_null_command
};


static ngx_core_module_t  ngx_etcd_module_ctx = {
    ngx_string("etcd"),
    ngx_etcd_create_conf,
    ngx_etcd_init_conf
};


ngx_module_t  ngx_etcd_module = {
    NGX_MODULE_V1,
    &ngx_etcd_module_ctx,                  /* module context */
    ngx_etcd_commands,                     /* module directives */
    NGX_CORE_MODULE,                       /* module type */
    NULL,                                  /* init master */
    ngx_etcd_init_module,                  /* init module */
    ngx_etcd_init_process,                 /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    ngx_etcd_exit_process,                 /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static void *
ngx_etcd_create_conf(ngx_cycle_t *cycle)
{
    ngx_etcd_main_conf_t  *emcf;

    emcf = ngx_pcalloc(cycle->pool, sizeof(ngx_etcd_main_conf_t));
    if (emcf == NULL) {
        return NULL;
    }

    if (ngx_array_init(&emcf->clusters, cycle->pool, 1,
                       sizeof(ngx_etcd_conf_t *))
        != NGX_OK
        || ngx_array_init(&emcf->upstreams, cycle->pool, 4,
                          sizeof(ngx_etcd_upstream_t *))
           != NGX_OK
        || ngx_array_init(&emcf->waits, cycle->pool, 1,
                          sizeof(ngx_etcd_wait_t *))
           != NGX_OK
        || ngx_array_init(&emcf->elections, cycle->pool, 1,
                          sizeof(ngx_etcd_campaign_t *))
           != NGX_OK
        || ngx_array_init(&emcf->set_variables, cycle->pool, 1,
                          sizeof(ngx_etcd_set_variable_t *))
           != NGX_OK)
    {
        return NULL;
    }

    emcf->wakeup = NGX_ETCD_WAKEUP_NONE;
    emcf->queue_wakeup = NGX_ETCD_WAKEUP_NONE;

    return emcf;
}


/* Called after the whole configuration was read, http and stream included. */

static char *
ngx_etcd_init_conf(ngx_cycle_t *cycle, void *conf)
{
    ngx_etcd_main_conf_t *emcf = conf;

    ngx_uint_t         i;
    ngx_core_conf_t   *ccf;
    ngx_etcd_conf_t  **ecf;

    ccf = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);
    ecf = emcf->clusters.elts;

    for (i = 0; i < emcf->clusters.nelts; i++) {
        ecf[i]->workers = ccf->worker_processes;

        if (!ecf[i]->defined) {
            ngx_log_error(NGX_LOG_EMERG, cycle->log, 0,
                          "unknown etcd cluster \"%V\" in %s:%ui: there is "
                          "no such \"etcd\" block",
                          &ecf[i]->name, ecf[i]->file, ecf[i]->line);
            return NGX_CONF_ERROR;
        }
    }

    if (ngx_etcd_upstream_check(emcf, cycle->log) != NGX_OK
        || ngx_etcd_wait_check(emcf, cycle->log) != NGX_OK
        || ngx_etcd_campaign_check(emcf, cycle) != NGX_OK
        || ngx_etcd_lock_conf_check(emcf, cycle->log) != NGX_OK
        || ngx_etcd_set_variable_check(emcf, cycle->log) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    for (i = 0; i < emcf->clusters.nelts; i++) {
        ngx_etcd_credentials_check(ecf[i], cycle);

        if (ngx_etcd_state_file_create(ecf[i], cycle) != NGX_OK) {
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_etcd_init_module(ngx_cycle_t *cycle)
{
    ngx_uint_t             i;
    ngx_etcd_conf_t      **ecf, *former;
    ngx_etcd_main_conf_t  *emcf, *old;

    emcf = ngx_etcd_conf_main(cycle);

    if (ngx_test_config || emcf->clusters.nelts == 0) {
        return NGX_OK;
    }

    /* reuse the eventfds: workers of the old configuration use them too */

    if (cycle->old_cycle != NULL && cycle->old_cycle->conf_ctx != NULL) {
        old = ngx_etcd_conf_main(cycle->old_cycle);
        if (old != NULL) {
            emcf->wakeup = old->wakeup;
            emcf->queue_wakeup = old->queue_wakeup;
        }
    }

    if (emcf->wakeup == NGX_ETCD_WAKEUP_NONE) {
        emcf->wakeup = ngx_etcd_wakeup_create(cycle->log);
    }

    if (emcf->queues && emcf->queue_wakeup == NGX_ETCD_WAKEUP_NONE) {
        emcf->queue_wakeup = ngx_etcd_wakeup_create(cycle->log);
    }

    ecf = emcf->clusters.elts;

    for (i = 0; i < emcf->clusters.nelts; i++) {
        former = ngx_etcd_conf_former(ecf[i]);
        ngx_etcd_zone_next_epoch(&ecf[i]->zone,
                                 former ? &former->zone : NULL);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_init_process(ngx_cycle_t *cycle)
{
    ngx_etcd_main_conf_t  *emcf;

    if (ngx_process != NGX_PROCESS_WORKER && ngx_process != NGX_PROCESS_SINGLE)
    {
        return NGX_OK;
    }

    /* the time may be that before the configuration was read */

    ngx_time_update();

    emcf = ngx_etcd_conf_main(cycle);

    if (ngx_etcd_agent_start(cycle, emcf) != NGX_OK
        || ngx_etcd_db_space_start(cycle, emcf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_etcd_write_check_start(cycle, emcf);
}


static void
ngx_etcd_exit_process(ngx_cycle_t *cycle)
{
    ngx_etcd_write_check_stop();
    ngx_etcd_db_space_stop();
    ngx_etcd_worker_locks_stop(cycle);
    ngx_etcd_agent_stop(cycle);
}


/* A zone of another size is new: the state of the cluster is copied. */

static void
ngx_etcd_init_cluster(ngx_etcd_conf_t *ecf, ngx_etcd_conf_t *former)
{
    if (former != NULL) {
        ecf->zone.sh->cluster = former->zone.sh->cluster;
        ecf->zone.sh->space = former->zone.sh->space;
        ecf->zone.sh->id = former->zone.sh->id;
    }

    ecf->client.shared_id = &ecf->zone.sh->id;
    ecf->client.epoch = ecf->zone.epoch;
}


static ngx_int_t
ngx_etcd_init_zone(ngx_shm_zone_t *shm_zone, void *data)
{
    ngx_etcd_conf_t *old = data;

    ngx_uint_t                 i;
    ngx_etcd_conf_t           *ecf, *former;
    ngx_etcd_catalog_conf_t  **catalogs;
    ngx_etcd_service_conf_t  **services;

    ecf = shm_zone->data;

    if (ngx_etcd_zone_init(&ecf->zone, shm_zone, old ? &old->zone : NULL)
        != NGX_OK)
    {
        goto failed;
    }

    former = (old == NULL) ? ngx_etcd_conf_former(ecf) : NULL;

    ngx_etcd_init_cluster(ecf, former);

    services = ecf->services.elts;

    for (i = 0; i < ecf->services.nelts; i++) {
        ngx_etcd_service_resolver(services[i], ecf->client.resolver,
                                  ecf->client.resolver_timeout);

        if (ngx_etcd_service_declare(services[i], &ecf->zone,
                                     former ? &former->zone : NULL)
            != NGX_OK)
        {
            goto failed;
        }
    }

    catalogs = ecf->catalogs.elts;

    for (i = 0; i < ecf->catalogs.nelts; i++) {
        ngx_etcd_service_resolver(&catalogs[i]->service, ecf->client.resolver,
                                  ecf->client.resolver_timeout);

        if (ngx_etcd_catalog_conf_declare(catalogs[i], &ecf->zone,
                                          former ? &former->zone : NULL)
            != NGX_OK)
        {
            goto failed;
        }
    }

    if (ngx_etcd_campaign_declare(ecf, former ? &former->zone : NULL)
        != NGX_OK
        || ngx_etcd_lock_conf_declare(ecf) != NGX_OK
        || ngx_etcd_set_variable_declare(ecf, former ? &former->zone : NULL)
           != NGX_OK)
    {
        goto failed;
    }

    if (old == NULL && former == NULL) {
        ngx_etcd_state_file_restore(ecf, shm_zone->shm.log);
    }

    return NGX_OK;

failed:

    ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                  "etcd cluster \"%V\" in %s:%ui: its \"zone\" of %uz bytes is "
                  "too small for %ui upstreams, %ui elections and "
                  "registrations, %ui locks, and %ui variables",
                  &ecf->name, ecf->file, ecf->line, shm_zone->shm.size,
                  ecf->services.nelts + ecf->catalogs.nelts,
                  ecf->campaigns.nelts, ecf->locks.nelts,
                  ecf->value_maps.nelts);

    return NGX_ERROR;
}


static char *
ngx_etcd_block_done(ngx_conf_t *cf, ngx_etcd_conf_t *ecf)
{
    char                     *rv;
    ngx_str_t                 name;
    ngx_shm_zone_t           *shm_zone;
    ngx_etcd_cluster_conf_t  *client;

    client = &ecf->client;

    if (ngx_etcd_endpoint_done(cf, ecf) != NGX_OK
        || ngx_etcd_credentials_done(cf, ecf) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    ngx_conf_init_msec_value(client->connect_timeout, 2000);
    ngx_conf_init_msec_value(client->request_timeout, 5000);
    ngx_conf_init_msec_value(client->ping_interval, 10000);
    ngx_conf_init_msec_value(client->ping_timeout, 3000);
    ngx_conf_init_msec_value(client->audit_interval, 300000);
    ngx_conf_init_size_value(client->max_message_size, 16 * 1024 * 1024);
    ngx_conf_init_size_value(ecf->zone_size, 8 * 1024 * 1024);
    ngx_conf_init_value(ecf->lock_ttl, NGX_ETCD_LOCK_TTL);
    ngx_conf_init_uint_value(ecf->lock_waiters, NGX_ETCD_LOCK_WAITERS);
    ngx_conf_init_msec_value(ecf->db_check, NGX_ETCD_DB_SPACE_CHECK);

    if (ecf->write_check == NGX_CONF_UNSET_PTR) {
        ecf->write_check = NULL;
    }

    client->name = ecf->name;

    if (client->key_namespace.data == NULL) {
        ngx_str_set(&client->key_namespace, "");
    }

    rv = ngx_etcd_ssl_module_done(cf, ecf);

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if (ngx_etcd_state_file_conf(cf, ecf) != NGX_CONF_OK) {
        return NGX_CONF_ERROR;
    }

    name.len = sizeof("etcd:") - 1 + ecf->name.len;
    name.data = ngx_pnalloc(cf->pool, name.len);
    if (name.data == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memcpy(ngx_cpymem(name.data, "etcd:", sizeof("etcd:") - 1),
               ecf->name.data, ecf->name.len);

    shm_zone = ngx_shared_memory_add(cf, &name, ecf->zone_size,
                                     &ngx_etcd_module);
    if (shm_zone == NULL) {
        return NGX_CONF_ERROR;
    }

    shm_zone->init = ngx_etcd_init_zone;
    shm_zone->data = ecf;

    return NGX_CONF_OK;
}


static char *
ngx_etcd_block(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char             *rv;
    void            **ctx;
    ngx_str_t        *value, name;
    ngx_conf_t        pcf;
    ngx_etcd_conf_t  *ecf;

    value = cf->args->elts;

    ngx_str_null(&name);

    if (cf->args->nelts == 2) {
        name = value[1];

        if (name.len == 0) {
            return "has an empty name";
        }
    }

    ecf = ngx_etcd_conf_get(cf, &name);
    if (ecf == NULL) {
        return NGX_CONF_ERROR;
    }

    if (ecf->defined) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "duplicate etcd cluster \"%V\"", &ecf->name);
        return NGX_CONF_ERROR;
    }

    ecf->defined = 1;
    ecf->file = cf->conf_file->file.name.data;
    ecf->line = cf->conf_file->line;

    ctx = ngx_pcalloc(cf->pool, sizeof(void *) * ngx_max_module);
    if (ctx == NULL) {
        return NGX_CONF_ERROR;
    }

    ctx[ngx_etcd_module.index] = ecf;
    ctx[ngx_etcd_ssl_module.index] = ecf;
    ctx[ngx_etcd_campaign_module.index] = ecf;

    if (ngx_etcd_ssl_module_init(cf, ecf) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    pcf = *cf;
    cf->ctx = ctx;
    cf->module_type = NGX_CORE_MODULE;
    cf->cmd_type = NGX_ETCD_CONF;

    rv = ngx_conf_parse(cf, NULL);

    *cf = pcf;

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    return ngx_etcd_block_done(cf, ecf);
}


static char *
ngx_etcd_cluster_id(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_etcd_conf_t *ecf = conf;

    ngx_str_t  *value;

    if (ecf->client.cluster_id != 0) {
        return "is duplicate";
    }

    value = cf->args->elts;

    ecf->client.cluster_id = ngx_etcd_cluster_id_parse(&value[1]);

    if (ecf->client.cluster_id == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid cluster id \"%V\": it is neither a "
                           "hexadecimal number of up to 16 digits nor a "
                           "decimal one of more", &value[1]);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


static char *
ngx_etcd_zone_size(ngx_conf_t *cf, void *post, void *data)
{
    size_t *sp = data;

    ngx_str_t  *value;

    value = cf->args->elts;

    if (*sp > NGX_ETCD_ZONE_MAX_SIZE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "etcd zone \"%V\" is too "
                           "large, at most %uLg are possible", &value[1],
                           NGX_ETCD_ZONE_MAX_SIZE >> 30);

        return NGX_CONF_ERROR;
    }

    if (*sp >= NGX_ETCD_ZONE_MIN_SIZE) {
        return NGX_CONF_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "etcd zone \"%V\" is too small, "
                       "at least %uzk are needed", &value[1],
                       (size_t) NGX_ETCD_ZONE_MIN_SIZE / 1024);

    return NGX_CONF_ERROR;
}


static char *
ngx_etcd_bounds(ngx_conf_t *cf, void *post, void *data)
{
    ngx_int_t *np = data;
    ngx_etcd_bounds_t *bounds = post;

    if (*np < bounds->min) {
        return bounds->less;
    }

    return (*np > bounds->max) ? bounds->more : NGX_CONF_OK;
}


static char *
ngx_etcd_not_empty(ngx_conf_t *cf, void *post, void *data)
{
    ngx_str_t *text = data;

    return (text->len == 0) ? "is empty" : NGX_CONF_OK;
}
