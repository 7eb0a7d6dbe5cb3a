
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_attribute.h>
#include <ngx_etcd_drain.h>
#include <ngx_etcd_format.h>
#include <ngx_etcd_members_conf.h>
#include <ngx_etcd_parameter.h>
#include <ngx_etcd_source.h>
#include <ngx_etcd_str.h>


static ngx_conf_enum_t  ngx_etcd_members_on_empty[] = {
    { ngx_string("drop"), 0 },
    { ngx_string("keep"), 1 },
    { ngx_null_string, 0 }
};


ngx_conf_enum_t  ngx_etcd_members_outcomes[] = {
    { ngx_string("upstream"), 0 },
    { ngx_string("members"), 1 },
    { ngx_null_string, 0 }
};


static ngx_etcd_option_t  ngx_etcd_members_options[] = {

    NGX_ETCD_MEMBERS_OPTIONS,

    { .name = ngx_string("format="), .type = NGX_ETCD_OPTION_READ },

    { .name = ngx_string("on_empty="), .type = NGX_ETCD_OPTION_ENUM,
      .offset = offsetof(ngx_etcd_service_conf_t, keep),
      .names = ngx_etcd_members_on_empty },

    { .name = ngx_string("backup"), .type = NGX_ETCD_OPTION_FLAG,
      .offset = offsetof(ngx_etcd_service_conf_t, line.backup) },

    { .name = ngx_string("close_after="), .type = NGX_ETCD_OPTION_TIME,
      .offset = offsetof(ngx_etcd_service_conf_t, rules.closing.after),
      .min = 1 },

    { .name = ngx_string("weight="), .pointer = 1,
      .set = ngx_etcd_members_conf_value },

    { .name = ngx_string("slow_start="), .pointer = 1,
      .set = ngx_etcd_members_conf_value },

    { .name = ngx_string("port="), .pointer = 1,
      .set = ngx_etcd_members_conf_value },

    { .name = ngx_string("scheme="), .set = ngx_etcd_members_conf_value },

    { .name = ngx_string("tag="), .repeat = 1,
      .set = ngx_etcd_members_conf_value },

    { .name = ngx_null_string, .set = ngx_etcd_members_conf_pointer }
};


#define NGX_ETCD_GUARD_NOT_TIME  "it must be a time from 1s to 7d"

static ngx_etcd_option_t  ngx_etcd_guard_options[] = {

    { .name = ngx_string("keep="), .type = NGX_ETCD_OPTION_SHARE,
      .offset = offsetof(ngx_etcd_guard_conf_t, keep),
      .min = 1, .max = 100, .otherwise = "it must be from 1% to 100%" },

    { .name = ngx_string("window="), .type = NGX_ETCD_OPTION_TIME,
      .offset = offsetof(ngx_etcd_guard_conf_t, window),
      .min = 1000, .max = NGX_ETCD_GUARD_LONGEST,
      .otherwise = NGX_ETCD_GUARD_NOT_TIME },

    { .name = ngx_string("hold="), .type = NGX_ETCD_OPTION_TIME,
      .offset = offsetof(ngx_etcd_guard_conf_t, hold),
      .min = 1000, .max = NGX_ETCD_GUARD_LONGEST,
      .otherwise = NGX_ETCD_GUARD_NOT_TIME },

    { .name = ngx_string("dry_run"), .type = NGX_ETCD_OPTION_FLAG,
      .offset = offsetof(ngx_etcd_guard_conf_t, dry) },

    ngx_etcd_null_option
};


static ngx_etcd_option_t  ngx_etcd_prefer_options[] = {

    { .name = ngx_string("spill="), .type = NGX_ETCD_OPTION_SHARE,
      .offset = offsetof(ngx_etcd_prefer_t, spill),
      .min = 1, .max = 100, .otherwise = "it must be from 1% to 100%" },

    ngx_etcd_null_option
};


char *
ngx_etcd_members_conf_value(ngx_conf_t *cf, ngx_etcd_option_t *option,
    ngx_str_t *value, void *conf)
{
    ngx_etcd_service_conf_t *service = conf;

    char       *err;
    ngx_int_t   rc;
    ngx_str_t   text;

    err = "invalid value";

    text.data = value->data - option->name.len;
    text.len = value->len + option->name.len;

    rc = ngx_etcd_parameter(&service->member, &text, cf->pool, &err);

    if (rc == NGX_DECLINED) {
        rc = ngx_etcd_attribute_parameter(&text, &service->member.defaults);
    }

    if (rc == NGX_DECLINED) {
        return "";
    }

    return (rc == NGX_OK) ? NGX_CONF_OK : err;
}


char *
ngx_etcd_members_conf_pointer(ngx_conf_t *cf, ngx_etcd_option_t *option,
    ngx_str_t *value, void *conf)
{
    ngx_str_t  name, pointer;

    if (!ngx_etcd_str_cut(value, '=', &name, &pointer)
        || pointer.len == 0
        || (pointer.data[0] != '/' && pointer.data[0] != '!'))
    {
        return "";
    }

    return ngx_etcd_members_conf_value(cf, option, value, conf);
}


char *
ngx_etcd_members_conf_allowed(ngx_etcd_option_t *option, void *conf)
{
    ngx_etcd_service_conf_t *service = conf;

    if ((option->contexts & NGX_ETCD_MEMBERS_SETS) && !service->catalog) {
        return "the prefix has no variable";
    }

    return NULL;
}


char *
ngx_etcd_members_conf(ngx_conf_t *cf, ngx_etcd_service_conf_t *service)
{
    ngx_etcd_catalog_conf_t  *catalog;

    /* other parameters depend on the format */

    if (ngx_etcd_members_conf_format(cf, service, "format=") != NGX_OK
        || ngx_etcd_option_read(cf, 2, ngx_etcd_members_options,
                                ngx_etcd_members_conf_allowed, service)
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    service->rules.close = (service->rules.closing.after != 0);
    service->source = (service->member.format->takes & NGX_ETCD_TAKES_GROUPS)
                      ? &ngx_etcd_source_groups : &ngx_etcd_source_keys;

    /* a set has the members of one service: no name is compared */

    catalog = ngx_etcd_catalog_of(service);

    return ngx_etcd_parameter_complete(&service->member,
                                       catalog ? &catalog->pattern.literal
                                               : &service->prefix);
}


char *
ngx_etcd_members_conf_guard(ngx_conf_t *cf, ngx_etcd_guard_conf_t *guard)
{
    ngx_str_t  *value;

    value = cf->args->elts;

    ngx_memzero(guard, sizeof(ngx_etcd_guard_conf_t));

    if (cf->args->nelts == 2 && ngx_strcmp(value[1].data, "off") == 0) {
        return NGX_CONF_OK;
    }

    guard->hold = NGX_ETCD_GUARD_HOLD;

    if (ngx_etcd_option_read(cf, 1, ngx_etcd_guard_options, NULL, guard)
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    if (guard->keep == 0 && (guard->window != 0 || guard->dry)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"window=\" and \"dry_run\" of \"%V\" need the "
                           "parameter \"keep=\"", &value[0]);
        return NGX_CONF_ERROR;
    }

    if (guard->window == 0) {
        guard->window = NGX_ETCD_GUARD_WINDOW;
    }

    return NGX_CONF_OK;
}


ngx_int_t
ngx_etcd_members_conf_format(ngx_conf_t *cf,
    ngx_etcd_service_conf_t *service, char *parameter)
{
    ngx_str_t   name, *names;

    ngx_str_set(&name, "auto");

    (void) ngx_etcd_option_text(cf, 2, parameter, &name);

    service->member.format = ngx_etcd_format_find(&name);

    if (service->member.format != NULL) {
        return NGX_OK;
    }

    names = ngx_etcd_format_names(cf->pool);
    if (names == NULL) {
        return NGX_ERROR;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "unknown format \"%V\", there are: %V", &name, names);

    return NGX_ERROR;
}


/* The value is a constant of this start or reload of nginx. */

static char *
ngx_etcd_prefer_value(ngx_conf_t *cf, ngx_str_t *value)
{
    char  *text;

    if (ngx_etcd_str_is(value, "$hostname")) {
        *value = cf->cycle->hostname;

    } else if (ngx_strlchr(value->data, value->data + value->len, '$')
               != NULL)
    {
        return "the only variable is \"$hostname\", as the whole value";

    } else if (ngx_strncmp(value->data, "env:", 4) == 0) {

        /* the text of a directive ends with a null character */

        text = getenv((char *) value->data + 4);

        if (text == NULL) {
            return "there is no such variable in the environment";
        }

        value->data = (u_char *) text;
        value->len = ngx_strlen(text);
    }

    return (value->len != 0) ? NULL : "its value is empty";
}


/* Writes the name and the value, as evaluated, into one text. */

static char *
ngx_etcd_prefer_copy(ngx_conf_t *cf, ngx_etcd_tag_t *tag)
{
    u_char  *p;

    p = ngx_pnalloc(cf->pool, tag->key.len + 1 + tag->value.len);

    if (p == NULL) {
        return "no memory";
    }

    (void) ngx_sprintf(p, "%V:%V", &tag->key, &tag->value);

    tag->key.data = p;
    tag->value.data = p + tag->key.len + 1;

    return NULL;
}


char *
ngx_etcd_prefer(ngx_conf_t *cf, ngx_etcd_prefer_t *prefer)
{
    char            *err;
    ngx_str_t       *value;
    ngx_etcd_tag_t  *tag;

    tag = &prefer->tag;
    value = cf->args->elts;

    if (!ngx_etcd_str_cut(&value[1], ':', &tag->key, &tag->value)
        || tag->key.len == 0)
    {
        err = "it is not \"TAG:VALUE\"";

    } else {
        err = ngx_etcd_prefer_value(cf, &tag->value);

        if (err == NULL) {
            err = ngx_etcd_prefer_copy(cf, tag);
        }
    }

    if (err != NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid tag \"%V\": %s",
                           &value[1], err);
        return NGX_CONF_ERROR;
    }

    prefer->spill = NGX_ETCD_PREFER_SPILL;

    return (ngx_etcd_option_read(cf, 2, ngx_etcd_prefer_options, NULL, prefer)
            == NGX_OK)
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


void
ngx_etcd_prefer_use(ngx_etcd_prefer_t *prefer,
    ngx_etcd_service_conf_t *service, uint32_t *hash)
{
    ngx_str_t  text;

    if (prefer->spill == 0) {
        return;
    }

    service->member.prefer = prefer->tag;
    service->rules.spill = prefer->spill;

    ngx_etcd_prefer_text(&prefer->tag, &text);

    ngx_crc32_update(hash, (u_char *) "prefer", 6);
    ngx_crc32_update(hash, text.data, text.len);
}


void
ngx_etcd_prefer_text(ngx_etcd_tag_t *tag, ngx_str_t *str)
{
    str->data = tag->key.data;
    str->len = tag->key.len + 1 + tag->value.len;
}


char *
ngx_etcd_prefer_check(ngx_etcd_prefer_t *prefer,
    ngx_etcd_service_conf_t *service)
{
    if (prefer->spill == 0) {
        return NULL;
    }

    for ( /* void */ ; service != NULL; service = service->line.next) {

        if (service->leader != NULL) {
            return "only \"etcd_members\" has members to prefer";
        }

        if (!ngx_etcd_parameter_tags(&service->member)) {
            return "the format has no tags";
        }
    }

    return NULL;
}


ngx_int_t
ngx_etcd_catalog_conf_declare(ngx_etcd_catalog_conf_t *conf,
    ngx_etcd_zone_t *zone, ngx_etcd_zone_t *old)
{
    ngx_uint_t                fresh;
    ngx_etcd_object_id_t      id;
    ngx_etcd_service_conf_t  *service;

    service = &conf->service;

    id.variant = ngx_etcd_member_set_variant(service->stream, service->kind);
    id.name = service->name;
    id.prefix = service->prefix;

    conf->map = ngx_etcd_set_map_declare(zone, &id, conf->limit);

    if (conf->map == NULL
        || ngx_etcd_outcome_declare(service->outcome, zone, &service->name,
                                    NULL, service->stream)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    conf->map_id = conf->map->object.id;
    conf->linger = ngx_max(service->awaited, service->rules.closing.after);

    service->zone = zone;

    service->rules.closing.upstream = &service->name;
    service->rules.closing.object = &conf->map->object;
    service->rules.closing.id = conf->map_id;
    service->rules.closing.closed = &conf->map->closed;

    fresh = (conf->map->map.n == 0 && conf->map->revision == 0);

    if (fresh && old != NULL
        && ngx_etcd_set_map_inherit(zone, conf->map, old) == NGX_ERROR)
    {
        return NGX_ERROR;
    }

    return NGX_OK;
}


/* Returns 1 while a set that is not known may be in etcd. */

static ngx_uint_t
ngx_etcd_catalog_conf_loads(ngx_etcd_catalog_conf_t *conf)
{
    if (__atomic_load_n(&conf->map->listed, __ATOMIC_ACQUIRE) == 0) {
        return 1;
    }

    if (conf->reading != NULL && !conf->reading(conf->cluster)) {
        conf->reading = NULL;
    }

    return conf->reading != NULL;
}


static ngx_uint_t
ngx_etcd_catalog_conf_loaded(void *data, ngx_uint_t more)
{
    return !ngx_etcd_catalog_conf_loads(data);
}


static ngx_uint_t
ngx_etcd_catalog_conf_always(void *data, ngx_uint_t more)
{
    return 1;
}


void
ngx_etcd_catalog_conf_worker(ngx_etcd_catalog_conf_t *conf,
    ngx_etcd_conf_t *cluster, ngx_etcd_catalog_conf_reading_pt reading,
    ngx_event_t *sync, ngx_log_t *log)
{
    ngx_etcd_table_cache_t  *cache;

    cache = &conf->cache;

    cache->zone = conf->service.zone;
    cache->map = conf->map;
    cache->rules = &conf->service.rules;
    cache->idle = conf->idle;
    cache->sync = sync;
    cache->log = log;

    ngx_etcd_hash_table_init(&cache->by_prefix, log);
    ngx_etcd_hash_table_init(&cache->by_set, log);

    ngx_queue_init(&cache->used);
    ngx_queue_init(&cache->former);

    cache->generation = conf->map->generation;
    cache->cursor = NULL;
    cache->n = 0;
    cache->unfinished = 0;

    conf->cluster = cluster;
    conf->reading = reading;

    ngx_etcd_wait_queue_init(&conf->loading, ngx_etcd_catalog_conf_loaded, NULL,
                             conf, log);
    ngx_etcd_wait_queue_init(&conf->known, ngx_etcd_catalog_conf_always, NULL,
                             conf, log);
}


void
ngx_etcd_catalog_conf_wake(ngx_etcd_catalog_conf_t *conf)
{
    ngx_queue_t                  *q, *next;
    ngx_etcd_wait_queue_t        *loading;
    ngx_etcd_wait_queue_entry_t  *entry;

    loading = &conf->loading;

    if (loading->n == 0) {
        return;
    }

    if (!ngx_etcd_catalog_conf_loads(conf)) {
        ngx_etcd_wait_queue_wake(loading);
        return;
    }

    for (q = ngx_queue_head(&loading->entries);
         q != ngx_queue_sentinel(&loading->entries);
         q = next)
    {
        next = ngx_queue_next(q);
        entry = ngx_queue_data(q, ngx_etcd_wait_queue_entry_t, queue);

        if (entry->hash != 0
            && ngx_etcd_set_map_has(conf->service.zone, conf->map,
                                    entry->hash))
        {
            ngx_etcd_wait_queue_move(entry, &conf->known);
        }
    }

    ngx_etcd_wait_queue_wake(&conf->known);
}


/*
 * The agent sets "listed" after all sets: it is read before a set is looked
 * for.
 */

ngx_etcd_table_t *
ngx_etcd_catalog_conf_table(ngx_etcd_catalog_conf_t *conf, ngx_str_t *values,
    ngx_int_t *rc)
{
    u_char             buf[NGX_ETCD_PATTERN_PREFIX];
    ngx_str_t          prefix;
    ngx_uint_t         loads;
    ngx_etcd_table_t  *table;

    loads = ngx_etcd_catalog_conf_loads(conf);
    table = NULL;

    ngx_str_null(&prefix);

    *rc = ngx_etcd_pattern_prefix(&conf->pattern, values, buf, &prefix);

    if (*rc == NGX_OK) {
        table = ngx_etcd_table_cache_get(&conf->cache, &prefix, rc);
    }

    if (table == NULL && *rc == NGX_DECLINED && loads) {
        *rc = NGX_BUSY;
        conf->missed = (prefix.len != 0) ? ngx_etcd_shared_map_hash(&prefix)
                                         : 0;
    }

    return table;
}


ngx_uint_t
ngx_etcd_catalog_conf_wants(ngx_etcd_catalog_conf_t *conf, ngx_str_t *key,
    size_t len)
{
    ngx_str_t                 name, address;
    ngx_etcd_service_conf_t  *service;

    service = &conf->service;

    name.data = key->data;
    name.len = len;

    if (service->source->wants == NULL
        || ngx_etcd_drain_address(&name, key, &address))
    {
        return 1;
    }

    name = *key;

    if (service->leader != NULL) {
        name.data += len;
        name.len -= len;
    }

    return service->source->wants(service, &name);
}


ngx_int_t
ngx_etcd_pattern_values_find(ngx_conf_t *cf, ngx_etcd_pattern_t *pattern,
    ngx_etcd_pattern_index_pt find, ngx_int_t *indices)
{
    ngx_uint_t                   i;
    ngx_etcd_pattern_segment_t  *segment;

    segment = pattern->segments.elts;

    for (i = 0; i < pattern->segments.nelts; i++) {

        if (!segment[i].variable) {
            continue;
        }

        *indices = find(cf, &segment[i].text);

        if (*indices++ == NGX_ERROR) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_pattern_values_read(ngx_etcd_pattern_t *pattern, ngx_int_t *indices,
    ngx_etcd_pattern_value_pt get, void *request, ngx_str_t *values)
{
    ngx_uint_t             i;
    ngx_variable_value_t  *vv;

    for (i = 0; i < pattern->nvariables; i++) {
        vv = get(request, indices[i]);

        if (vv == NULL) {
            return NGX_ERROR;
        }

        values[i].data = vv->data;
        values[i].len = vv->not_found ? 0 : vv->len;
    }

    return NGX_OK;
}


ngx_etcd_table_t *
ngx_etcd_pattern_values_table(ngx_etcd_service_conf_t *service,
    ngx_etcd_pattern_value_pt get, void *request, ngx_int_t *rc)
{
    ngx_str_t                 values[NGX_ETCD_PATTERN_VARIABLES];
    ngx_etcd_catalog_conf_t  *catalog;

    *rc = NGX_OK;
    catalog = ngx_etcd_catalog_of(service);

    if (catalog == NULL) {
        return service->table;
    }

    if (ngx_etcd_pattern_values_read(&catalog->pattern, catalog->variables,
                                     get, request, values)
        != NGX_OK)
    {
        *rc = NGX_DECLINED;
        return NULL;
    }

    return ngx_etcd_catalog_conf_table(catalog, values, rc);
}
