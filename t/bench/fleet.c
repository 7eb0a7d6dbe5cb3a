
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A fleet of clients in one nginx, as a directive:
 *
 *     etcd_fleet FILE COUNT PREFIX none|register|election TTL GROUP;
 *
 * The workers share COUNT clients of the cluster "default", each of which is
 * what the agent of an nginx is: a cluster with its connections, a watch stream
 * with a mirror of PREFIX, and, if asked for, a registration, or a candidate of
 * the election of its GROUP clients, with a lease stream.
 *
 * FILE is mapped into memory, and has an ngx_etcd_fleet_row_t for each worker.
 * A value of PREFIX has the time of its put, in microseconds, behind "at":".
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_client.h>
#include <ngx_etcd_conf.h>
#include <ngx_etcd_election.h>
#include <ngx_etcd_hash_table.h>
#include <ngx_etcd_mirror.h>
#include <ngx_etcd_register.h>
#include "test_module.h"


#define NGX_ETCD_FLEET_TICK     20          /* ms */
#define NGX_ETCD_FLEET_PIECE    16          /* clients made in a round */
#define NGX_ETCD_FLEET_MS       60000       /* later ones are as late */
#define NGX_ETCD_FLEET_WORKERS  16


/* Fleet.pm reads these in this order. */

typedef struct {
    uint64_t                  clients;
    uint64_t                  synced;       /* clients, as the next three */
    uint64_t                  connected;
    uint64_t                  authorized;
    uint64_t                  held;         /* with a key and a lease */
    uint64_t                  leads;
    uint64_t                  logins;       /* answered */
    uint64_t                  events;
    uint64_t                  lost;         /* leases */
    uint64_t                  reconnects;
    uint64_t                  resyncs;
    uint64_t                  revision;     /* of the slowest client */
    uint64_t                  waited[NGX_ETCD_FLEET_MS + 1];  /* logins by ms */
    uint64_t                  late[NGX_ETCD_FLEET_MS + 1];  /* events by ms */
} ngx_etcd_fleet_row_t;


typedef struct {
    ngx_etcd_cluster_conf_t   conf;
    ngx_etcd_cluster_t       *cluster;
    ngx_etcd_watch_stream_t  *stream;
    ngx_etcd_lease_stream_t  *leases;
    ngx_etcd_mirror_t         mirror;
    ngx_etcd_register_t       reg;
    ngx_etcd_election_t       election;
    ngx_etcd_lease_state_t   *hold;         /* NULL: there is no lease */
    int64_t                   lease;        /* the last one */
    ngx_msec_t                issued;       /* of the last token */
    ngx_msec_t                asked;        /* since then; 0: not seen */
    u_char                    name[NGX_INT64_LEN + 1];
    u_char                    key[NGX_INT64_LEN + sizeof("/fleet/election/")];
} ngx_etcd_fleet_client_t;


static char *ngx_etcd_fleet(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
static ngx_int_t ngx_etcd_fleet_start(ngx_cycle_t *cycle);
static ngx_int_t ngx_etcd_fleet_map(ngx_cycle_t *cycle);
static ngx_int_t ngx_etcd_fleet_create(ngx_etcd_fleet_client_t *client,
    ngx_etcd_conf_t *ecf, ngx_uint_t number, ngx_log_t *log);
static ngx_int_t ngx_etcd_fleet_register(ngx_etcd_fleet_client_t *client,
    ngx_str_t *name);
static ngx_int_t ngx_etcd_fleet_campaign(ngx_etcd_fleet_client_t *client,
    ngx_str_t *name, ngx_uint_t number);
static void ngx_etcd_fleet_begin(ngx_event_t *ev);
static void ngx_etcd_fleet_tick(ngx_event_t *ev);


/* of the configuration that was read last */

static ngx_str_t                 ngx_etcd_fleet_file;
static ngx_str_t                 ngx_etcd_fleet_prefix;
static ngx_str_t                 ngx_etcd_fleet_mode;
static ngx_int_t                 ngx_etcd_fleet_count;
static ngx_int_t                 ngx_etcd_fleet_ttl;
static ngx_int_t                 ngx_etcd_fleet_group;

/* of this worker */

static ngx_etcd_fleet_row_t     *ngx_etcd_fleet_row;
static ngx_etcd_fleet_client_t  *ngx_etcd_fleet_clients;
static ngx_uint_t                ngx_etcd_fleet_n;
static ngx_event_t               ngx_etcd_fleet_beginning;
static ngx_event_t               ngx_etcd_fleet_event;


static ngx_command_t  ngx_etcd_fleet_commands[] = {

    { ngx_string("etcd_fleet"),
      NGX_MAIN_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE6,
      ngx_etcd_fleet,
      0,
      0,
      NULL },

      ngx_null_command
};


test_module_start(ngx_etcd_fleet_module, ngx_etcd_fleet_commands,
                  ngx_etcd_fleet_start);


static char *
ngx_etcd_fleet(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    ngx_etcd_fleet_file = value[1];
    ngx_etcd_fleet_count = ngx_atoi(value[2].data, value[2].len);
    ngx_etcd_fleet_prefix = value[3];
    ngx_etcd_fleet_mode = value[4];
    ngx_etcd_fleet_ttl = ngx_atoi(value[5].data, value[5].len);
    ngx_etcd_fleet_group = ngx_atoi(value[6].data, value[6].len);

    if (ngx_etcd_fleet_count <= 0
        || ngx_etcd_fleet_ttl <= 0
        || ngx_etcd_fleet_group <= 0)
    {
        return "has an invalid number";
    }

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_etcd_fleet_start(ngx_cycle_t *cycle)
{
    ngx_etcd_main_conf_t  *emcf;

    if (ngx_process != NGX_PROCESS_WORKER || ngx_etcd_fleet_count == 0) {
        return NGX_OK;
    }

    emcf = ngx_etcd_conf_main(cycle);

    if (emcf->clusters.nelts == 0
        || ngx_worker >= NGX_ETCD_FLEET_WORKERS
        || ngx_etcd_fleet_map(cycle) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_etcd_fleet_clients = ngx_pcalloc(cycle->pool, ngx_etcd_fleet_count
                                            * sizeof(ngx_etcd_fleet_client_t));
    if (ngx_etcd_fleet_clients == NULL) {
        return NGX_ERROR;
    }

    ngx_etcd_event_init(&ngx_etcd_fleet_beginning, ngx_etcd_fleet_begin, NULL,
                        cycle->log);

    ngx_etcd_event_init_timer(&ngx_etcd_fleet_event, ngx_etcd_fleet_tick, NULL,
                              cycle->log);

    ngx_post_event(&ngx_etcd_fleet_beginning, &ngx_posted_events);
    ngx_add_timer(&ngx_etcd_fleet_event, NGX_ETCD_FLEET_TICK);

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_fleet_map(ngx_cycle_t *cycle)
{
    void      *p;
    size_t     size;
    ngx_fd_t   fd;

    size = NGX_ETCD_FLEET_WORKERS * sizeof(ngx_etcd_fleet_row_t);

    fd = ngx_open_file(ngx_etcd_fleet_file.data, NGX_FILE_RDWR,
                       NGX_FILE_CREATE_OR_OPEN, NGX_FILE_DEFAULT_ACCESS);

    if (fd == NGX_INVALID_FILE || ftruncate(fd, size) == -1) {
        ngx_log_error(NGX_LOG_ALERT, cycle->log, ngx_errno,
                      "the fleet's file \"%V\"", &ngx_etcd_fleet_file);
        return NGX_ERROR;
    }

    p = mmap(NULL, size, PROT_READ|PROT_WRITE, MAP_SHARED, fd, 0);

    (void) ngx_close_file(fd);

    if (p == MAP_FAILED) {
        ngx_log_error(NGX_LOG_ALERT, cycle->log, ngx_errno,
                      "mmap() of the fleet's file failed");
        return NGX_ERROR;
    }

    ngx_etcd_fleet_row = (ngx_etcd_fleet_row_t *) p + ngx_worker;

    return NGX_OK;
}


static void
ngx_etcd_fleet_nothing(void *data)
{
    /* nobody is told */
}


/* an event, or a key of a list, which was put before anybody looked */

static void
ngx_etcd_fleet_changed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry)
{
    u_char          *p, *last;
    int64_t          ms;
    uint64_t         at;
    struct timeval   tv;

    if (mirror->listing) {
        return;
    }

    last = entry->value.data + entry->value.len;
    p = ngx_strlcasestrn(entry->value.data, last, (u_char *) "\"at\":\"", 5);

    if (p == NULL) {
        return;
    }

    at = 0;

    for (p += sizeof("\"at\":\"") - 1; p < last && *p != '"'; p++) {
        at = at * 10 + (*p - '0');
    }

    ngx_gettimeofday(&tv);

    ms = ((int64_t) (tv.tv_sec * 1000000 + tv.tv_usec) - (int64_t) at) / 1000;
    ms = ngx_max(0, ngx_min(ms, NGX_ETCD_FLEET_MS));

    ngx_etcd_fleet_row->late[ms]++;
    ngx_etcd_fleet_row->events++;
}


static ngx_int_t
ngx_etcd_fleet_registered(ngx_etcd_register_t *reg)
{
    return NGX_OK;
}


static ngx_int_t
ngx_etcd_fleet_campaigned(ngx_etcd_election_t *election, ngx_uint_t seen)
{
    return NGX_OK;
}


static ngx_int_t
ngx_etcd_fleet_create(ngx_etcd_fleet_client_t *client, ngx_etcd_conf_t *ecf,
    ngx_uint_t number, ngx_log_t *log)
{
    ngx_str_t           name;
    ngx_etcd_mirror_t  *mirror;

    /* the clients of one nginx would agree on the cluster's id */

    client->conf = ecf->client;
    client->conf.shared_id = NULL;

    client->cluster = ngx_etcd_client_create(&client->conf,
                                             ngx_etcd_fleet_nothing, NULL, log);
    if (client->cluster == NULL) {
        return NGX_ERROR;
    }

    client->stream = ngx_etcd_watch_stream_create(client->cluster);

    if (client->stream == NULL
        || ngx_etcd_server_faults_ask(client->cluster, ecf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    mirror = &client->mirror;

    ngx_str_set(&mirror->name, "fleet");
    mirror->watch.range.prefix = ngx_etcd_fleet_prefix;
    mirror->changed = ngx_etcd_fleet_changed;
    mirror->data = client;

    ngx_etcd_mirror_init(mirror, log);

    if (ngx_etcd_mirror_start(mirror, client->stream) != NGX_OK) {
        return NGX_ERROR;
    }

    name.data = client->name;
    name.len = ngx_sprintf(name.data, "%ui", number) - name.data;

    switch (ngx_etcd_fleet_mode.data[0]) {

    case 'r':
        return ngx_etcd_fleet_register(client, &name);

    case 'e':
        return ngx_etcd_fleet_campaign(client, &name, number);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_fleet_register(ngx_etcd_fleet_client_t *client, ngx_str_t *name)
{
    ngx_etcd_register_t  *reg;

    client->leases = ngx_etcd_lease_stream_create(client->cluster);
    if (client->leases == NULL) {
        return NGX_ERROR;
    }

    reg = &client->reg;

    reg->stream = client->stream;
    reg->leases = client->leases;
    reg->pool = client->cluster->pool;
    reg->name = *name;
    reg->key.data = client->key;
    reg->key.len = ngx_sprintf(client->key, "/fleet/register/%V", name)
                   - client->key;
    reg->value = *name;
    reg->ttl = ngx_etcd_fleet_ttl;
    reg->changed = ngx_etcd_fleet_registered;

    client->hold = &reg->hold;

    return ngx_etcd_register_start(reg);
}


static ngx_int_t
ngx_etcd_fleet_campaign(ngx_etcd_fleet_client_t *client, ngx_str_t *name,
    ngx_uint_t number)
{
    ngx_etcd_election_t  *election;

    client->leases = ngx_etcd_lease_stream_create(client->cluster);
    if (client->leases == NULL) {
        return NGX_ERROR;
    }

    election = &client->election;

    election->stream = client->stream;
    election->leases = client->leases;
    election->pool = client->cluster->pool;
    election->name = *name;
    election->prefix.data = client->key;
    election->prefix.len = ngx_sprintf(client->key, "/fleet/election/%ui",
                                       number / ngx_etcd_fleet_group)
                           - client->key;
    election->value = *name;
    election->ttl = ngx_etcd_fleet_ttl;
    election->changed = ngx_etcd_fleet_campaigned;

    client->hold = &election->hold;

    return ngx_etcd_election_start(election);
}


/*
 * The clients begin as fast as they can.  What is received is read between two
 * pieces of them: the timeouts of one client are not to measure how long the
 * others take.
 */

static void
ngx_etcd_fleet_begin(ngx_event_t *ev)
{
    ngx_uint_t             i, number, workers;
    ngx_core_conf_t       *ccf;
    ngx_etcd_conf_t      **ecf;

    ccf = (ngx_core_conf_t *) ngx_get_conf(ngx_cycle->conf_ctx,
                                           ngx_core_module);
    workers = ccf->worker_processes;
    ecf = ngx_etcd_conf_main(ngx_cycle)->clusters.elts;

    ngx_time_update();

    for (i = 0; i < NGX_ETCD_FLEET_PIECE; i++) {
        number = ngx_etcd_fleet_n * workers + ngx_worker;

        if (number >= (ngx_uint_t) ngx_etcd_fleet_count) {
            return;
        }

        if (ngx_etcd_fleet_create(&ngx_etcd_fleet_clients[ngx_etcd_fleet_n],
                                  ecf[0], number, ev->log)
            != NGX_OK)
        {
            ngx_log_error(NGX_LOG_ALERT, ev->log, 0, "no client %ui", number);
            return;
        }

        ngx_etcd_fleet_row->clients = ++ngx_etcd_fleet_n;
    }

    ngx_post_event(ev, &ngx_posted_next_events);
}


static void
ngx_etcd_fleet_look(ngx_etcd_fleet_client_t *client, ngx_etcd_fleet_row_t *sum)
{
    ngx_msec_t           ms;
    ngx_etcd_auth_t     *auth;
    ngx_etcd_cluster_t  *cluster;

    cluster = client->cluster;
    auth = cluster->auth;

    sum->connected += (cluster->streams->state == NGX_ETCD_CHANNEL_READY);
    sum->synced += (client->mirror.synced && cluster->current);
    sum->authorized += ngx_etcd_auth_ready(auth);
    sum->reconnects += cluster->counts.reconnects;
    sum->resyncs += cluster->counts.resyncs;

    sum->revision = ngx_min(sum->revision, (uint64_t) client->mirror.revision);

    /* a login that begins and ends between two looks took no time */

    if (auth->login.calling && client->asked == 0) {
        client->asked = ngx_current_msec;
    }

    if (auth->issued != client->issued) {
        ms = client->asked ? auth->issued - client->asked : 0;
        client->issued = auth->issued;
        client->asked = 0;

        ngx_etcd_fleet_row->waited[ngx_min(ms, NGX_ETCD_FLEET_MS)]++;
        ngx_etcd_fleet_row->logins++;
    }

    if (client->hold == NULL) {
        return;
    }

    sum->held += (client->hold->lease != 0 && client->hold->created != 0);
    sum->leads += (client->hold->until > ngx_etcd_clock());

    if (client->hold->lease != client->lease) {
        ngx_etcd_fleet_row->lost += (client->lease != 0);
        client->lease = client->hold->lease;
    }
}


static void
ngx_etcd_fleet_tick(ngx_event_t *ev)
{
    ngx_uint_t                    i;
    ngx_etcd_fleet_row_t         *row;
    static ngx_etcd_fleet_row_t   sum;

    row = ngx_etcd_fleet_row;

    ngx_memzero(&sum, offsetof(ngx_etcd_fleet_row_t, waited));
    sum.revision = (uint64_t) -1;

    for (i = 0; i < ngx_etcd_fleet_n; i++) {
        ngx_etcd_fleet_look(&ngx_etcd_fleet_clients[i], &sum);
    }

    row->connected = sum.connected;
    row->synced = sum.synced;
    row->authorized = sum.authorized;
    row->held = sum.held;
    row->leads = sum.leads;
    row->reconnects = sum.reconnects;
    row->resyncs = sum.resyncs;
    row->revision = sum.revision;

    if (!ngx_exiting && !ngx_quit && !ngx_terminate) {
        ngx_add_timer(ev, NGX_ETCD_FLEET_TICK);
    }
}
