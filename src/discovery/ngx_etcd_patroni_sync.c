
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_decode.h>
#include <ngx_etcd_patroni_sync.h>
#include <ngx_etcd_service.h>
#include <ngx_etcd_str.h>


static ngx_etcd_role_e ngx_etcd_patroni_sync_mode(ngx_etcd_leader_t *leader);
static ngx_etcd_role_e ngx_etcd_patroni_sync_mode_of(json_t *mode);
static ngx_uint_t ngx_etcd_patroni_sync_is(ngx_str_t *text, char *word);
static void ngx_etcd_patroni_sync_standbys(ngx_etcd_leader_t *leader,
    json_t *object, ngx_str_t *standbys);


/* words that Patroni takes for true */

static char  *ngx_etcd_patroni_sync_true[] = { "true", "on", "yes", "1", NULL };


void
ngx_etcd_patroni_sync_read(ngx_etcd_leader_t *leader,
    ngx_etcd_patroni_sync_t *sync)
{
    ngx_etcd_json_t           json;
    ngx_etcd_mirror_entry_t  *key;

    ngx_str_null(&sync->standbys);

    sync->role = ngx_etcd_patroni_sync_mode(leader);

    key = ngx_etcd_leader_find(leader, &leader->conf->sync);

    if (key == NULL || sync->role == NGX_ETCD_ROLE_ASYNC) {
        return;
    }

    if (ngx_etcd_json_read(&json, &key->value, 0) == NGX_OK) {
        ngx_etcd_patroni_sync_standbys(leader, json.root, &sync->standbys);
    }

    ngx_etcd_json_done(&json);
}


static ngx_etcd_role_e
ngx_etcd_patroni_sync_mode(ngx_etcd_leader_t *leader)
{
    ngx_etcd_role_e           role;
    ngx_etcd_json_t           json;
    ngx_etcd_mirror_entry_t  *key;

    role = NGX_ETCD_ROLE_ASYNC;

    key = ngx_etcd_leader_find(leader, &leader->conf->config);
    if (key == NULL) {
        return role;
    }

    if (ngx_etcd_json_read(&json, &key->value, 0) == NGX_OK) {
        role = ngx_etcd_patroni_sync_mode_of(
                   json_object_get(json.root, "synchronous_mode"));
    }

    ngx_etcd_json_done(&json);

    return role;
}


static ngx_etcd_role_e
ngx_etcd_patroni_sync_mode_of(json_t *mode)
{
    char       **word;
    u_char       buf[NGX_ETCD_JSON_NUMBER];
    ngx_str_t    text;

    if (ngx_etcd_json_scalar(mode, buf, &text) != NGX_OK) {
        return NGX_ETCD_ROLE_ASYNC;
    }

    if (ngx_etcd_patroni_sync_is(&text, "quorum")) {
        return NGX_ETCD_ROLE_QUORUM;
    }

    for (word = ngx_etcd_patroni_sync_true; *word != NULL; word++) {
        if (ngx_etcd_patroni_sync_is(&text, *word)) {
            return NGX_ETCD_ROLE_SYNC;
        }
    }

    return NGX_ETCD_ROLE_ASYNC;
}


static ngx_uint_t
ngx_etcd_patroni_sync_is(ngx_str_t *text, char *word)
{
    return text->len == ngx_strlen(word)
           && ngx_strncasecmp(text->data, (u_char *) word, text->len) == 0;
}


static void
ngx_etcd_patroni_sync_standbys(ngx_etcd_leader_t *leader,
    json_t *object, ngx_str_t *standbys)
{
    ngx_str_t  names;

    if (ngx_etcd_json_string(json_object_get(object, "sync_standby"), &names)
        != NGX_OK)
    {
        return;
    }

    standbys->data = ngx_pstrdup(leader->pool, &names);

    if (standbys->data == NULL) {
        leader->service->diff.broken = 1;
        return;
    }

    standbys->len = names.len;
}


/* PostgreSQL compares names of standbys without case, and so does Patroni. */

ngx_etcd_role_e
ngx_etcd_patroni_sync_role(ngx_etcd_patroni_sync_t *sync, ngx_str_t *name)
{
    u_char     *p, *comma, *last;
    ngx_str_t   one;

    p = sync->standbys.data;
    last = p + sync->standbys.len;

    while (p < last) {
        comma = ngx_strlchr(p, last, ',');

        one.data = p;
        one.len = (comma ? comma : last) - p;

        ngx_etcd_decode_trim(&one);

        if (ngx_etcd_str_alike(&one, name)) {
            return sync->role;
        }

        p = comma ? comma + 1 : last;
    }

    return NGX_ETCD_ROLE_ASYNC;
}
