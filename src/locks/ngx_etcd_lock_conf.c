
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_lock_conf.h>
#include <ngx_etcd_option.h>
#include <ngx_etcd_service.h>
#include <ngx_etcd_str.h>


/* the parameters; those here must be equal in all directives of a name */

typedef struct {
    ngx_etcd_lock_name_t    name;          /* reuse: 0, without "reuse=" */
    ngx_int_t               handoff;       /* former: requests after the first
                                              one; or UNSET */
    ngx_int_t               linger;        /* former: ms; or UNSET */
    ngx_etcd_lock_conf_t   *lock;
} ngx_etcd_lock_shared_t;

#define NGX_ETCD_IN_LOCK  offsetof(ngx_etcd_lock_shared_t, lock)


static char *
ngx_etcd_lock_is_name(ngx_str_t *name)
{
    size_t  i;

    if (name->len == 0) {
        return "has an empty name";
    }

    if (name->len > NGX_ETCD_LOCK_MAX_NAME) {
        return "has a name of more than 512 bytes";
    }

    for (i = 0; i < name->len; i++) {

        if (name->data[i] == '$') {
            return "cannot have variables in its name: they belong in the key";
        }

        if (name->data[i] <= ' ' || name->data[i] >= 0x7f) {
            return "has a name with other than printable ASCII characters";
        }
    }

    if (name->data[name->len - 1] == '/') {
        return "has a name that ends in a slash";
    }

    return NGX_CONF_OK;
}


/* NUMBER[,TIME] */

static char *
ngx_etcd_lock_reuse(ngx_conf_t *cf, ngx_etcd_option_t *option,
    ngx_str_t *value, void *conf)
{
    ngx_etcd_lock_shared_t *shared = conf;

    ngx_int_t  n, keep;
    ngx_str_t  number, time;

    number = *value;
    keep = 0;

    if (ngx_etcd_str_cut(value, ',', &number, &time)) {
        keep = ngx_parse_time(&time, 0);
    }

    n = ngx_atoi(number.data, number.len);

    if (n < 1 || n > NGX_ETCD_LOCK_MAX_REUSE
        || keep == NGX_ERROR || keep > NGX_ETCD_LOCK_MAX_KEEP)
    {
        return option->otherwise;
    }

    shared->name.reuse = n;
    shared->name.keep = keep;

    return NGX_CONF_OK;
}


static ngx_conf_enum_t  ngx_etcd_lock_empty[] = {
    { ngx_string("pass"), 1 },
    { ngx_null_string, 0 }
};


static ngx_etcd_option_t  ngx_etcd_lock_options[] = {

    { .name = ngx_string("cluster="), .type = NGX_ETCD_OPTION_READ,
      .min = 1 },

    { .name = ngx_string("wait="), .type = NGX_ETCD_OPTION_TIME,
      .conf = NGX_ETCD_IN_LOCK,
      .offset = offsetof(ngx_etcd_lock_conf_t, wait) },

    { .name = ngx_string("queue="), .type = NGX_ETCD_OPTION_NUMBER,
      .conf = NGX_ETCD_IN_LOCK,
      .offset = offsetof(ngx_etcd_lock_conf_t, queue),
      .min = 1, .max = NGX_MAX_INT32_VALUE,
      .otherwise = "it must be between 1 and 2147483647" },

    { .name = ngx_string("permits="), .type = NGX_ETCD_OPTION_NUMBER,
      .offset = offsetof(ngx_etcd_lock_shared_t, name.permits),
      .min = 1, .max = NGX_ETCD_LOCK_MAX_PERMITS,
      .otherwise = "it must be between 1 and 1000000" },

    { .name = ngx_string("reuse="), .set = ngx_etcd_lock_reuse,
      .otherwise = "it must be NUMBER or NUMBER,TIME, with a NUMBER between 1 "
                   "and 1024 and a TIME of at most 10s" },

    { .name = ngx_string("handoff="), .type = NGX_ETCD_OPTION_NUMBER,
      .former = 1, .offset = offsetof(ngx_etcd_lock_shared_t, handoff),
      .max = NGX_ETCD_LOCK_MAX_REUSE - 1,
      .otherwise = "it must be between 0 and 1023" },

    { .name = ngx_string("linger="), .type = NGX_ETCD_OPTION_TIME, .former = 1,
      .offset = offsetof(ngx_etcd_lock_shared_t, linger),
      .max = NGX_ETCD_LOCK_MAX_KEEP },

    { .name = ngx_string("shared="), .type = NGX_ETCD_OPTION_STRING,
      .conf = NGX_ETCD_IN_LOCK,
      .offset = offsetof(ngx_etcd_lock_conf_t, sharing), .min = 1 },

    { .name = ngx_string("empty="), .type = NGX_ETCD_OPTION_ENUM,
      .conf = NGX_ETCD_IN_LOCK,
      .offset = offsetof(ngx_etcd_lock_conf_t, pass),
      .names = ngx_etcd_lock_empty },

    ngx_etcd_null_option
};


/* Directives with one name have to agree. */

static ngx_etcd_lock_name_t *
ngx_etcd_lock_name_get(ngx_conf_t *cf, ngx_etcd_lock_name_t *name)
{
    ngx_uint_t              i;
    ngx_etcd_conf_t        *ecf;
    ngx_etcd_lock_name_t   *new, **names;

    ecf = ngx_etcd_option_cluster(cf, 2);
    if (ecf == NULL) {
        return NULL;
    }

    names = ecf->locks.elts;

    for (i = 0; i < ecf->locks.nelts; i++) {

        if (!ngx_etcd_str_equal(&names[i]->name, &name->name)) {
            continue;
        }

        if (names[i]->permits == name->permits
            && names[i]->reuse == name->reuse
            && names[i]->keep == name->keep
            && names[i]->keyed == name->keyed)
        {
            return names[i];
        }

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "lock \"%V\" differs from its definition in "
                           "%s:%ui in \"permits=\", \"reuse=\", or in having "
                           "a key",
                           &name->name, names[i]->file, names[i]->line);

        return NULL;
    }

    new = ngx_palloc(cf->pool, sizeof(ngx_etcd_lock_name_t));
    if (new == NULL) {
        return NULL;
    }

    *new = *name;
    new->cluster = ecf;

    ecf->coordinates = 1;

    return (ngx_etcd_conf_push(&ecf->locks, new) == NGX_OK) ? new : NULL;
}


/* Returns what parameters cannot be used together. */

static char *
ngx_etcd_lock_fits(ngx_conf_t *cf, ngx_etcd_lock_shared_t *shared)
{
    ngx_uint_t             former;
    ngx_etcd_lock_conf_t  *lock;

    lock = shared->lock;

    former = (shared->handoff != NGX_CONF_UNSET
              || shared->linger != NGX_CONF_UNSET);

    if (shared->name.reuse == 0) {
        shared->name.reuse = ngx_max(shared->handoff, 0) + 1;
        shared->name.keep = ngx_max(shared->linger, 0);

    } else if (former) {
        return "has both \"reuse=\" and one of its former names, "
               "\"handoff=\" and \"linger=\"";
    }

    if (former) {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "\"handoff=\" and \"linger=\" of \"etcd_lock\" are "
                           "deprecated, use \"reuse=%ui,%Mms\" instead",
                           shared->name.reuse, shared->name.keep);
    }

    if (shared->name.keep != 0 && lock->wait == 0) {
        return "has a TIME in \"reuse=\" without \"wait=\"";
    }

    if (shared->name.keep != 0 && shared->name.permits != 1) {
        return "has both a TIME in \"reuse=\" and \"permits=\"";
    }

    if (lock->sharing.len != 0 && shared->name.permits != 1) {
        return "has both \"shared=\" and \"permits=\"";
    }

    if (lock->pass && lock->key.len == 0) {
        return "has \"empty=pass\" without a key";
    }

    return NGX_CONF_OK;
}


/* A parameter that does not exist would be the KEY. */

static void
ngx_etcd_lock_check_key(ngx_conf_t *cf, ngx_str_t *key)
{
    size_t  i;

    for (i = 0; i < key->len; i++) {
        if ((key->data[i] < 'a' || key->data[i] > 'z') && key->data[i] != '_') {
            break;
        }
    }

    if (i != 0 && i < key->len && key->data[i] == '=') {
        ngx_conf_log_error(NGX_LOG_WARN, cf, 0,
                           "\"etcd_lock\" has no parameter \"%V\" and takes it "
                           "for its key; if it is one, let a variable have "
                           "this value", ngx_etcd_shown(key));
    }
}


static char *
ngx_etcd_lock_arguments(ngx_conf_t *cf, ngx_etcd_lock_conf_t *lock)
{
    char                    *rv;
    ngx_str_t               *value;
    ngx_uint_t               i;
    ngx_etcd_lock_shared_t   shared;

    ngx_memzero(lock, sizeof(ngx_etcd_lock_conf_t));
    ngx_memzero(&shared, sizeof(ngx_etcd_lock_shared_t));

    shared.lock = lock;
    shared.name.permits = 1;
    shared.handoff = NGX_CONF_UNSET;
    shared.linger = NGX_CONF_UNSET;

    lock->queue = NGX_ETCD_LOCK_QUEUE;

    value = cf->args->elts;
    rv = ngx_etcd_lock_is_name(&value[1]);

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    i = 2;

    if (i < cf->args->nelts
        && !ngx_etcd_option_known(ngx_etcd_lock_options, &value[i]))
    {
        lock->key = value[i++];

        if (lock->key.len == 0) {
            return "has an empty key";
        }

        ngx_etcd_lock_check_key(cf, &lock->key);
    }

    if (ngx_etcd_option_read(cf, i, ngx_etcd_lock_options, NULL, &shared)
        != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    rv = ngx_etcd_lock_fits(cf, &shared);

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    shared.name.name = value[1];
    shared.name.keyed = (lock->key.len != 0);
    shared.name.file = cf->conf_file->file.name.data;
    shared.name.line = cf->conf_file->line;

    lock->name = ngx_etcd_lock_name_get(cf, &shared.name);
    if (lock->name == NULL) {
        return NGX_CONF_ERROR;
    }

    lock->name->varied |= (ngx_strlchr(lock->key.data,
                                       lock->key.data + lock->key.len, '$')
                           != NULL);
    lock->name->shared |= (lock->sharing.len != 0);

    return NGX_CONF_OK;
}


/* Sorts locks in one global order, which prevents deadlocks. */

static char *
ngx_etcd_lock_insert(ngx_array_t *locks, ngx_etcd_lock_conf_t *new)
{
    ngx_str_t             *one, *two;
    ngx_uint_t             i, same;
    ngx_etcd_lock_conf_t  *lock;

    if (ngx_array_push(locks) == NULL) {
        return NGX_CONF_ERROR;
    }

    lock = locks->elts;

    for (i = locks->nelts - 1; i != 0; i--) {

        if (lock[i - 1].name == new->name) {
            return "is duplicate";
        }

        same = (lock[i - 1].name->cluster == new->name->cluster);
        one = same ? &lock[i - 1].name->name : &lock[i - 1].name->cluster->name;
        two = same ? &new->name->name : &new->name->cluster->name;

        if (ngx_memn2cmp(one->data, two->data, one->len, two->len) < 0) {
            break;
        }

        lock[i] = lock[i - 1];
    }

    lock[i] = *new;

    return NGX_CONF_OK;
}


char *
ngx_etcd_lock_conf(ngx_conf_t *cf, ngx_array_t **locks,
    void *(*compile)(ngx_conf_t *cf, ngx_str_t *key))
{
    char                  *rv;
    ngx_str_t             *value;
    ngx_uint_t             off;
    ngx_etcd_lock_conf_t   lock;

    value = cf->args->elts;
    off = (cf->args->nelts == 2 && ngx_strcmp(value[1].data, "off") == 0);

    if (*locks == NULL || (off && *locks != NGX_CONF_UNSET_PTR)) {
        return "cannot be both \"off\" and on";
    }

    if (off) {
        *locks = NULL;
        return NGX_CONF_OK;
    }

    rv = ngx_etcd_lock_arguments(cf, &lock);

    if (rv != NGX_CONF_OK) {
        return rv;
    }

    if ((lock.key.len != 0 && (lock.value = compile(cf, &lock.key)) == NULL)
        || (lock.sharing.len != 0
            && (lock.shared = compile(cf, &lock.sharing)) == NULL))
    {
        return NGX_CONF_ERROR;
    }

    if (*locks == NGX_CONF_UNSET_PTR) {
        *locks = ngx_array_create(cf->pool, 1, sizeof(ngx_etcd_lock_conf_t));

        if (*locks == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    return ngx_etcd_lock_insert(*locks, &lock);
}


/* Returns 1 if the name begins with the other name and a slash. */

static ngx_uint_t
ngx_etcd_lock_below(ngx_str_t *name, ngx_str_t *other)
{
    return name->len > other->len
           && ngx_memcmp(name->data, other->data, other->len) == 0
           && name->data[other->len] == '/';
}


/* Otherwise keys of one lock would be taken for contenders of the other. */

static ngx_int_t
ngx_etcd_lock_conf_check_one(ngx_etcd_lock_name_t *name, ngx_log_t *log)
{
    ngx_uint_t              i;
    ngx_etcd_lock_name_t  **names;

    names = name->cluster->locks.elts;

    for (i = 0; i < name->cluster->locks.nelts; i++) {
        if (ngx_etcd_lock_below(&names[i]->name, &name->name)) {
            ngx_log_error(NGX_LOG_EMERG, log, 0,
                          "lock \"%V\" in %s:%ui is below lock \"%V\" in "
                          "%s:%ui", &names[i]->name, names[i]->file,
                          names[i]->line, &name->name, name->file, name->line);
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static void
ngx_etcd_lock_conf_members(ngx_etcd_lock_name_t *name, ngx_log_t *log)
{
    ngx_str_t                 *prefix;
    ngx_uint_t                 i;
    ngx_etcd_service_conf_t  **services;

    services = name->cluster->services.elts;

    for (i = 0; i < name->cluster->services.nelts; i++) {
        prefix = &services[i]->prefix;

        if ((name->name.len >= prefix->len
             && ngx_memcmp(name->name.data, prefix->data, prefix->len) == 0)
            || ngx_etcd_lock_below(prefix, &name->name))
        {
            ngx_log_error(NGX_LOG_WARN, log, 0,
                          "keys of lock \"%V\" in %s:%ui overlap the prefix "
                          "of upstream \"%V\": \"%V\"",
                          &name->name, name->file, name->line,
                          &services[i]->name, prefix);
        }
    }
}


ngx_int_t
ngx_etcd_lock_conf_check(ngx_etcd_main_conf_t *emcf, ngx_log_t *log)
{
    ngx_uint_t              i, n;
    ngx_etcd_conf_t       **ecf;
    ngx_etcd_lock_name_t  **names;

    ecf = emcf->clusters.elts;

    for (i = 0; i < emcf->clusters.nelts; i++) {
        names = ecf[i]->locks.elts;

        for (n = 0; n < ecf[i]->locks.nelts; n++) {
            if (ngx_etcd_lock_conf_check_one(names[n], log) != NGX_OK) {
                return NGX_ERROR;
            }

            ngx_etcd_lock_conf_members(names[n], log);
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_lock_conf_declare(ngx_etcd_conf_t *ecf)
{
    ngx_uint_t              i;
    ngx_etcd_object_id_t    id;
    ngx_etcd_lock_name_t  **names;

    ngx_memzero(&id, sizeof(ngx_etcd_object_id_t));

    names = ecf->locks.elts;

    for (i = 0; i < ecf->locks.nelts; i++) {
        id.name = names[i]->name;

        names[i]->stats = ngx_etcd_object_declare(&ecf->zone,
                                                  &ngx_etcd_lock_stats_type,
                                                  &id);
        if (names[i]->stats == NULL) {
            return NGX_ERROR;
        }
    }

    if (ecf->locks.nelts != 0) {
        ngx_etcd_lock_table_declare(&ecf->zone, ecf->workers);
    }

    return NGX_OK;
}
