
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A mirror beside a model of etcd, as a directive:
 *
 *     etcd_mirror_model OPTIONS SEED STEPS FAILURES;
 *
 * Options are "keep" and "create", or "-".  At random keys
 * are put and deleted, some together; lists come in pages, end early, and
 * begin anew; events come in parts, and some twice; streams break and go on,
 * history is compacted or is another one; rights are taken away; and of
 * FAILURES percent of the steps an allocation fails.  Whenever the mirror says
 * that it is synced, it must have what the model had at its revision, and its
 * consumer must have been told so.  Writes "model: CHECKS WRONG FAILED".
 */


#include "unit_mirror.h"


#define NGX_ETCD_MODEL_KEYS    12
#define NGX_ETCD_MODEL_EVENTS  8192
#define NGX_ETCD_MODEL_VALUE   16
#define NGX_ETCD_MODEL_KEEP    4


typedef struct {
    int64_t               created;             /* 0: no such key */
    int64_t               modified;
    u_char                value[NGX_ETCD_MODEL_VALUE];
    size_t                len;
} ngx_etcd_model_key_t;


typedef struct {
    ngx_uint_t            key;
    int64_t               modified;
    ngx_etcd_model_key_t  state;
} ngx_etcd_model_event_t;


typedef struct {
    ngx_etcd_mirror_t       mirror;

    /* etcd */
    int64_t                 revision;
    ngx_etcd_model_key_t    keys[NGX_ETCD_MODEL_KEYS];
    ngx_etcd_model_event_t *events;
    ngx_uint_t              nevents;

    /* the watch */
    ngx_uint_t              next;              /* event to be delivered */
    ngx_uint_t              split;             /* a part of a revision was */

    /* the last that the consumer was told */
    ngx_etcd_model_key_t    told[NGX_ETCD_MODEL_KEYS];

    ngx_uint_t              checks;
    ngx_uint_t              wrong;
    ngx_uint_t              failed;            /* lists for want of memory */
} ngx_etcd_model_t;


static ngx_uint_t ngx_etcd_model_chance(ngx_uint_t percent);
static ngx_uint_t ngx_etcd_model_number(ngx_str_t *key);
static void ngx_etcd_model_write(ngx_etcd_model_t *model);
static void ngx_etcd_model_history(ngx_etcd_model_t *model);
static void ngx_etcd_model_state(ngx_etcd_model_t *model, int64_t revision,
    ngx_etcd_model_key_t *keys);
static void ngx_etcd_model_step(ngx_etcd_model_t *model);
static void ngx_etcd_model_lists(ngx_etcd_model_t *model);
static ngx_uint_t ngx_etcd_model_pages(ngx_etcd_model_t *model,
    int64_t revision);
static void ngx_etcd_model_deliver(ngx_etcd_model_t *model, ngx_uint_t whole);
static void ngx_etcd_model_break(ngx_etcd_model_t *model);
static void ngx_etcd_model_seek(ngx_etcd_model_t *model, int64_t revision);
static void ngx_etcd_model_check(ngx_etcd_model_t *model);
static ngx_uint_t ngx_etcd_model_differs(ngx_etcd_model_t *model, ngx_uint_t n,
    ngx_etcd_model_key_t *key);
static void ngx_etcd_model_changed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry);
static void ngx_etcd_model_removed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry);
static void ngx_etcd_model_complete(ngx_etcd_mirror_t *mirror,
    int64_t revision);


static u_char  ngx_etcd_model_names[NGX_ETCD_MODEL_KEYS][4];


char *
ngx_etcd_unit_mirror_model(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    char               *text;
    ngx_str_t          *value;
    ngx_uint_t          i, steps, failures;
    ngx_etcd_model_t   *model;
    ngx_etcd_mirror_t  *mirror;

    value = cf->args->elts;
    text = (char *) value[1].data;

    model = ngx_pcalloc(cf->pool, sizeof(ngx_etcd_model_t));
    model->events = ngx_pcalloc(cf->pool, NGX_ETCD_MODEL_EVENTS
                                          * sizeof(ngx_etcd_model_event_t));

    ngx_etcd_unit_world_reset(cf->log);

    srandom(ngx_atoi(value[2].data, value[2].len));
    steps = ngx_atoi(value[3].data, value[3].len);
    failures = ngx_atoi(value[4].data, value[4].len);

    for (i = 0; i < NGX_ETCD_MODEL_KEYS; i++) {
        ngx_sprintf(ngx_etcd_model_names[i], "k%02ui", i);
    }

    mirror = &model->mirror;

    ngx_str_set(&mirror->name, "etcd: model");
    ngx_str_set(&mirror->watch.range.prefix, "k");

    mirror->entries.keep = ngx_strstr(text, "keep") ? NGX_ETCD_MODEL_KEEP : 0;
    mirror->entries.ordered = (ngx_strstr(text, "create") != NULL);
    mirror->changed = ngx_etcd_model_changed;
    mirror->removed = ngx_etcd_model_removed;
    mirror->complete = ngx_etcd_model_complete;
    mirror->data = model;

    ngx_etcd_mirror_init(mirror, cf->log);

    if (ngx_etcd_mirror_start(mirror, &ngx_etcd_unit_world.stream) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    model->revision = 10;

    for (i = 0; i < steps; i++) {
        test_alloc_fail(ngx_etcd_model_chance(failures) ? random() % 6 + 1
                                                        : 0);
        ngx_etcd_model_step(model);
        ngx_etcd_model_check(model);
    }

    /* in the end it has everything */

    test_alloc_fail(0);

    while (!mirror->synced || model->next != model->nevents) {
        ngx_etcd_model_lists(model);
        ngx_etcd_model_deliver(model, 1);
    }

    ngx_etcd_model_check(model);

    if (mirror->revision != model->revision) {
        model->wrong++;
    }

    ngx_etcd_mirror_destroy(mirror);

    if (mirror->entries.size != 0) {
        model->wrong++;
    }

    printf("model: %lu %lu %lu\n", (unsigned long) model->checks,
           (unsigned long) model->wrong, (unsigned long) model->failed);

    return NGX_CONF_OK;
}


static ngx_uint_t
ngx_etcd_model_chance(ngx_uint_t percent)
{
    return (ngx_uint_t) random() % 100 < percent;
}


static ngx_uint_t
ngx_etcd_model_number(ngx_str_t *key)
{
    return ngx_atoi(key->data + 1, key->len - 1);
}


/* one revision, of one key or several */

static void
ngx_etcd_model_write(ngx_etcd_model_t *model)
{
    ngx_uint_t               i, k, first, n;
    ngx_etcd_model_key_t    *key;
    ngx_etcd_model_event_t  *event;

    first = random() % NGX_ETCD_MODEL_KEYS;
    n = ngx_etcd_model_chance(70) ? 1 : random() % NGX_ETCD_MODEL_KEYS + 1;

    if (model->nevents + n > NGX_ETCD_MODEL_EVENTS) {
        return;
    }

    model->revision++;

    for (i = 0; i < n; i++) {
        k = (first + i) % NGX_ETCD_MODEL_KEYS;
        key = &model->keys[k];

        if (key->created != 0 && ngx_etcd_model_chance(40)) {
            key->created = 0;

        } else {
            key->len = random() % 3 ? ngx_sprintf(key->value, "%D",
                                                  (int32_t) random())
                                      - key->value
                                    : 0;
            key->created = key->created ? key->created : model->revision;
        }

        key->modified = model->revision;

        event = &model->events[model->nevents++];

        event->key = k;
        event->modified = model->revision;
        event->state = *key;
    }
}


/* etcd is wiped, or restored, or another one */

static void
ngx_etcd_model_history(ngx_etcd_model_t *model)
{
    ngx_uint_t  i;

    model->revision = 1 + random() % (model->revision + 5);
    model->nevents = 0;
    model->next = 0;
    model->split = 0;

    ngx_memzero(model->keys, sizeof(model->keys));

    for (i = random() % 10; i > 0; i--) {
        ngx_etcd_model_write(model);
    }

    ngx_etcd_unit_world.cluster.history.changes++;

    model->mirror.watch.revision = 0;
    model->mirror.watch.foreign = 1;
    model->mirror.watch.state = NGX_ETCD_WATCH_NEW;
}


static void
ngx_etcd_model_state(ngx_etcd_model_t *model, int64_t revision,
    ngx_etcd_model_key_t *keys)
{
    ngx_uint_t  i;

    ngx_memzero(keys, NGX_ETCD_MODEL_KEYS * sizeof(ngx_etcd_model_key_t));

    for (i = 0; i < model->nevents; i++) {
        if (model->events[i].modified <= revision) {
            keys[model->events[i].key] = model->events[i].state;
        }
    }
}


static void
ngx_etcd_model_step(ngx_etcd_model_t *model)
{
    ngx_str_t  text = ngx_string("why");

    switch (random() % 12) {

    case 0: case 1: case 2: case 3:
        ngx_etcd_model_write(model);
        break;

    case 4:
        ngx_etcd_model_break(model);
        break;

    case 5:
        if (ngx_etcd_model_chance(10)) {
            ngx_etcd_model_history(model);
        }

        break;

    case 6:
        if (model->mirror.watch.revision != 0
            && !model->split)
        {
            model->mirror.watch.failed(&model->mirror.watch,
                                       NGX_ETCD_GRPC_PERMISSION_DENIED,
                                       &text);
            ngx_etcd_model_break(model);
        }

        break;

    case 7:
        if (ngx_etcd_model_chance(10)) {
            ngx_etcd_mirror_again(&model->mirror, 0);
        }

        break;

    default:
        ngx_etcd_model_lists(model);
        ngx_etcd_model_deliver(model, 0);
    }
}


/* if the watch has to */

static void
ngx_etcd_model_lists(ngx_etcd_model_t *model)
{
    int64_t            revision;
    ngx_str_t          text = ngx_string("why");
    ngx_uint_t         done;
    ngx_etcd_watch_t  *watch;

    watch = &model->mirror.watch;

    if (watch->revision != 0) {
        return;
    }

    model->split = 0;

    do {
        revision = model->revision;
        done = ngx_etcd_model_pages(model, revision);
    } while (done == 2);

    if (!done) {
        watch->revision = 0;
        watch->state = NGX_ETCD_WATCH_WAITING;
        watch->failed(watch, NGX_ETCD_GRPC_UNAVAILABLE, &text);
        return;
    }

    watch->revision = revision;
    ngx_etcd_model_seek(model, revision);

    while (watch->keys(watch, NULL, 0) == NGX_AGAIN) { /* void */ }
    watch->listed(watch, revision);
    watch->foreign = 0;

    if (watch->revision != 0) {
        watch->creates++;
        watch->state = NGX_ETCD_WATCH_ACTIVE;
        watch->events(watch, NULL, 0, watch->revision);
    }
}


/* 0: the list fails; 2: its revision is compacted, and it begins anew */

static ngx_uint_t
ngx_etcd_model_pages(ngx_etcd_model_t *model, int64_t revision)
{
    ngx_uint_t             i, k, n;
    Etcd__KeyValue         kv[NGX_ETCD_MODEL_KEYS], *kvs[NGX_ETCD_MODEL_KEYS];
    ngx_etcd_watch_t      *watch;
    ngx_etcd_model_key_t   keys[NGX_ETCD_MODEL_KEYS];

    watch = &model->mirror.watch;

    ngx_etcd_model_state(model, revision, keys);

    watch->list(watch);

    for (k = 0; k < NGX_ETCD_MODEL_KEYS; /* void */) {

        n = 0;

        for (i = random() % 4 + 1; i > 0 && k < NGX_ETCD_MODEL_KEYS; k++) {
            if (keys[k].created == 0) {
                continue;
            }

            ngx_etcd_unit_kv(&kv[n], ngx_etcd_model_names[k], 3,
                             keys[k].created, keys[k].modified, keys[k].value,
                             keys[k].len);
            kvs[n] = &kv[n];
            n++;
            i--;
        }

        if (n != 0 && watch->keys(watch, kvs, n) != NGX_OK) {
            model->failed++;
            return 0;
        }

        if (ngx_etcd_model_chance(3)) {
            return ngx_etcd_model_chance(50) ? 0 : 2;
        }

        if (ngx_etcd_model_chance(20)) {
            ngx_etcd_model_write(model);
        }
    }

    return 1;
}


/* all that is there, or a part that may end within a revision */

static void
ngx_etcd_model_deliver(ngx_etcd_model_t *model, ngx_uint_t whole)
{
    int64_t                  revision;
    ngx_uint_t               i, n, last, agains;
    Etcd__Event              event[NGX_ETCD_MODEL_KEYS * 2],
                            *events[NGX_ETCD_MODEL_KEYS * 2];
    Etcd__KeyValue           kv[NGX_ETCD_MODEL_KEYS * 2];
    ngx_etcd_watch_t        *watch;
    ngx_etcd_model_event_t  *from;

    watch = &model->mirror.watch;

    if (watch->revision == 0 || watch->state != NGX_ETCD_WATCH_ACTIVE) {
        return;
    }

    n = ngx_min(model->nevents - model->next, NGX_ETCD_MODEL_KEYS);

    if (!whole) {
        n = random() % (n + 1);
    }

    if (n == 0 && model->next != model->nevents) {
        return;
    }

    last = model->next + n;

    /* of a part of a revision some may come once more */

    while (model->split && model->next > 0 && n < NGX_ETCD_MODEL_KEYS * 2
           && model->events[model->next - 1].modified > watch->revision
           && ngx_etcd_model_chance(50))
    {
        model->next--;
        n++;
    }

    revision = (n != 0) ? model->events[last - 1].modified : model->revision;

    model->split = (n != 0 && last < model->nevents
                    && model->events[last].modified == revision);

    revision -= model->split;

    for (i = 0; i < n; i++) {
        from = &model->events[model->next + i];

        ngx_etcd_unit_kv(&kv[i], ngx_etcd_model_names[from->key], 3,
                         from->state.created, from->modified,
                         from->state.value,
                         from->state.created ? from->state.len : 0);

        etcd__event__init(&event[i]);
        event[i].type = from->state.created ? ETCD__EVENT__EVENT_TYPE__PUT
                                            : ETCD__EVENT__EVENT_TYPE__DELETE;
        event[i].kv = &kv[i];
        events[i] = &event[i];
    }

    model->next = last;
    watch->revision = ngx_max(watch->revision, revision);
    agains = ngx_etcd_unit_world.agains;

    watch->events(watch, events, n, watch->revision);

    if (ngx_etcd_unit_world.agains != agains) {
        model->failed++;
    }
}


/* the stream ends, and the watch goes on, or what was missed is read */

static void
ngx_etcd_model_break(ngx_etcd_model_t *model)
{
    int64_t            revision;
    ngx_str_t          text = ngx_string("why");
    ngx_etcd_watch_t  *watch;

    watch = &model->mirror.watch;

    if (watch->revision == 0) {
        return;
    }

    if (model->split || ngx_etcd_model_chance(20)) {

        /* a part of a revision, or it is compacted */

        watch->revision = 0;
        watch->state = NGX_ETCD_WATCH_NEW;
        return;
    }

    watch->creates++;
    watch->state = NGX_ETCD_WATCH_ACTIVE;
    watch->events(watch, NULL, 0, watch->revision);

    if (ngx_etcd_model_chance(50)) {
        return;
    }

    revision = model->revision;

    if (ngx_etcd_model_pages(model, revision) != 1) {
        watch->state = NGX_ETCD_WATCH_WAITING;
        watch->failed(watch, NGX_ETCD_GRPC_INTERNAL, &text);
        return;
    }

    watch->revision = revision;
    ngx_etcd_model_seek(model, revision);
    while (watch->keys(watch, NULL, 0) == NGX_AGAIN) { /* void */ }
    watch->listed(watch, revision);
    watch->foreign = 0;
}


/* The next revision is later than that. */

static void
ngx_etcd_model_seek(ngx_etcd_model_t *model, int64_t revision)
{
    model->next = 0;

    while (model->next < model->nevents
           && model->events[model->next].modified <= revision)
    {
        model->next++;
    }
}


static void
ngx_etcd_model_check(ngx_etcd_model_t *model)
{
    int64_t                   last;
    ngx_uint_t                i, n;
    ngx_etcd_mirror_t        *mirror;
    ngx_etcd_model_key_t      keys[NGX_ETCD_MODEL_KEYS];
    ngx_etcd_mirror_entry_t  *entry;

    mirror = &model->mirror;

    if (!mirror->synced || mirror->watch.revision == 0 || model->split) {
        return;
    }

    model->checks++;

    ngx_etcd_model_state(model, mirror->revision, keys);

    n = 0;

    for (i = 0; i < NGX_ETCD_MODEL_KEYS; i++) {
        n += (keys[i].created != 0);
        model->wrong += ngx_etcd_model_differs(model, i, &keys[i]);
    }

    last = 0;

    for (entry = ngx_etcd_mirror_first(mirror);
         entry != NULL;
         entry = ngx_etcd_mirror_next(mirror, entry))
    {
        n--;

        if (mirror->entries.ordered) {
            model->wrong += (entry->create_revision < last);
            last = entry->create_revision;
        }
    }

    model->wrong += (n != 0);
}


/* from what the mirror has, and from what the consumer was told */

static ngx_uint_t
ngx_etcd_model_differs(ngx_etcd_model_t *model, ngx_uint_t n,
    ngx_etcd_model_key_t *key)
{
    size_t                    len;
    ngx_str_t                 name;
    ngx_etcd_model_key_t     *told;
    ngx_etcd_mirror_entry_t  *entry;

    name.data = ngx_etcd_model_names[n];
    name.len = 3;

    entry = ngx_etcd_mirror_find(&model->mirror, &name);
    told = &model->told[n];

    if (key->created == 0) {
        return entry != NULL || told->created != 0;
    }

    if (entry == NULL
        || entry->create_revision != key->created
        || entry->mod_revision != key->modified
        || told->modified != key->modified)
    {
        return 1;
    }

    len = model->mirror.entries.keep
          ? ngx_min(key->len, model->mirror.entries.keep) : key->len;

    return told->len != len
           || ngx_memcmp(told->value, key->value, len) != 0
           || (model->mirror.entries.keep
               ? (entry->value.len != len
                  || ngx_memcmp(entry->value.data, key->value, len) != 0)
               : entry->value.len != 0);
}


static void
ngx_etcd_model_changed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_etcd_model_t      *model;
    ngx_etcd_model_key_t  *told;

    model = mirror->data;
    told = &model->told[ngx_etcd_model_number(&entry->key)];

    told->created = entry->create_revision;
    told->modified = entry->mod_revision;
    told->len = entry->value.len;
    ngx_memcpy(told->value, entry->value.data, entry->value.len);
}


static void
ngx_etcd_model_removed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_etcd_model_t  *model;

    model = mirror->data;
    model->told[ngx_etcd_model_number(&entry->key)].created = 0;
}


static void
ngx_etcd_model_complete(ngx_etcd_mirror_t *mirror, int64_t revision)
{
    ngx_etcd_model_t  *model;

    model = mirror->data;

    if (!mirror->synced || revision != mirror->revision) {
        model->wrong++;
    }
}
