
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A mirror as a directive:
 *
 *     etcd_mirror OPTIONS STEP ...;
 *
 * Options: "keep=BYTES", "create" (the order), "from=N" (a
 * start revision, with the key "s" at that revision), "wants" (keys that begin
 * with "x" are not), "held" (entries count how often they have changed, and
 * are held when they are removed), "-"; with commas.  Steps are what etcd does,
 * words with colons:
 *
 *     created               the watch is in force
 *     list                  a list begins
 *     key:KEY:CREATE:MOD:VALUE
 *     listed:REVISION
 *     put:KEY:CREATE:MOD:VALUE, del:KEY:MOD
 *                           for the next "events:REVISION"
 *     failed:STATUS
 *     history               it is another one
 *     oom:N                 the N-th allocation from now fails
 *     again, stop           what the consumer may do
 *     audit                 one begins
 *     answer:REVISION       its list begins at that revision
 *     akey:KEY:CREATE:MOD, adone:STATUS
 *                           the list
 *     settled:PROVED:REACHED
 *                           its time is over; 1: the watch is proved alive; the
 *                           endpoint has come to that revision
 *     dump                  shows all entries
 *
 * Writes "mirror: " and what the handlers were told.
 */


#include "test_module.h"
#include "unit_mirror.h"


#define NGX_ETCD_UNIT_FIELDS  5
#define NGX_ETCD_UNIT_EVENTS  32


typedef struct {
    ngx_etcd_mirror_t     mirror;
    Etcd__Event          *events[NGX_ETCD_UNIT_EVENTS];
    Etcd__Event           event[NGX_ETCD_UNIT_EVENTS];
    Etcd__KeyValue        kv[NGX_ETCD_UNIT_EVENTS];
    ngx_uint_t            n;
    ngx_uint_t            held;
} ngx_etcd_unit_script_t;


typedef struct {
    ngx_etcd_mirror_entry_t  entry;
    int                      changes;
} ngx_etcd_unit_entry_t;


static ngx_queue_t  ngx_etcd_unit_held;


static ngx_int_t ngx_etcd_unit_script_init(ngx_etcd_unit_script_t *script,
    ngx_str_t *options);
static void ngx_etcd_unit_step(ngx_etcd_unit_script_t *script,
    ngx_str_t *field);
static ngx_uint_t ngx_etcd_unit_step_watch(ngx_etcd_unit_script_t *script,
    ngx_str_t *field);
static ngx_uint_t ngx_etcd_unit_step_event(ngx_etcd_unit_script_t *script,
    ngx_str_t *field);
static ngx_uint_t ngx_etcd_unit_step_audit(ngx_etcd_unit_script_t *script,
    ngx_str_t *field);
static void ngx_etcd_unit_dump(ngx_etcd_mirror_t *mirror);
static void ngx_etcd_unit_free_held(void);
static ngx_uint_t ngx_etcd_unit_is(ngx_str_t *field, char *word);
static int64_t ngx_etcd_unit_number(ngx_str_t *field);

static ngx_uint_t ngx_etcd_unit_wants(ngx_etcd_mirror_t *mirror,
    ngx_str_t *key);
static void ngx_etcd_unit_mirror_changed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry);
static void ngx_etcd_unit_mirror_removed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry);
static void ngx_etcd_unit_mirror_complete(ngx_etcd_mirror_t *mirror,
    int64_t revision);
static void ngx_etcd_unit_mirror_denied(ngx_etcd_mirror_t *mirror,
    ngx_etcd_grpc_status_e status);
static void ngx_etcd_unit_mirror_foreign(ngx_etcd_mirror_t *mirror);


static ngx_command_t  ngx_etcd_unit_mirror_commands[] = {

    { ngx_string("etcd_mirror"),
      NGX_MAIN_CONF|NGX_DIRECT_CONF|NGX_CONF_2MORE,
      ngx_etcd_unit_mirror,
      0,
      0,
      NULL },

    { ngx_string("etcd_mirror_model"),
      NGX_MAIN_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE4,
      ngx_etcd_unit_mirror_model,
      0,
      0,
      NULL },

      ngx_null_command
};


test_module(ngx_etcd_unit_mirror_module, ngx_etcd_unit_mirror_commands);


char *
ngx_etcd_unit_mirror(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    u_char                  *p, *last;
    ngx_str_t               *value, field[NGX_ETCD_UNIT_FIELDS];
    ngx_uint_t               i, n;
    ngx_etcd_unit_script_t  *script;

    value = cf->args->elts;

    script = ngx_pcalloc(cf->pool, sizeof(ngx_etcd_unit_script_t));
    if (script == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_etcd_unit_world_reset(cf->log);
    ngx_queue_init(&ngx_etcd_unit_held);
    printf("mirror:");

    if (ngx_etcd_unit_script_init(script, &value[1]) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    for (i = 2; i < cf->args->nelts; i++) {
        ngx_memzero(field, sizeof(field));

        p = value[i].data;
        last = p + value[i].len;

        for (n = 0; n < NGX_ETCD_UNIT_FIELDS && p <= last; n++) {
            field[n].data = p;

            while (p < last && *p != ':') {
                p++;
            }

            field[n].len = p++ - field[n].data;
        }

        ngx_etcd_unit_step(script, field);
    }

    ngx_etcd_mirror_destroy(&script->mirror);
    ngx_etcd_unit_free_held();

    if (script->mirror.entries.size != 0 || script->mirror.audit.run != NULL) {
        printf(" LEAKED");
    }

    printf("\n");

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_etcd_unit_script_init(ngx_etcd_unit_script_t *script, ngx_str_t *options)
{
    char               *text;
    ngx_str_t           seed;
    ngx_etcd_mirror_t  *mirror;

    mirror = &script->mirror;
    text = (char *) options->data;

    ngx_str_set(&mirror->name, "etcd: unit");
    ngx_str_set(&mirror->watch.range.prefix, "/p/");

    mirror->entries.ordered = (ngx_strstr(text, "create") != NULL);

    if (ngx_strstr(text, "keep=") != NULL) {
        mirror->entries.keep = atoi(ngx_strstr(text, "keep=") + 5);
    }

    mirror->entries.entry_size = sizeof(ngx_etcd_unit_entry_t);
    mirror->data = script;

    script->held = (ngx_strstr(text, "held") != NULL);

    if (ngx_strstr(text, "wants") != NULL) {
        mirror->wants = ngx_etcd_unit_wants;
    }

    mirror->changed = ngx_etcd_unit_mirror_changed;
    mirror->removed = ngx_etcd_unit_mirror_removed;
    mirror->complete = ngx_etcd_unit_mirror_complete;
    mirror->denied = ngx_etcd_unit_mirror_denied;
    mirror->foreign = ngx_etcd_unit_mirror_foreign;

    ngx_etcd_mirror_init(mirror, ngx_etcd_unit_world.cluster.log);

    if (ngx_strstr(text, "from=") != NULL) {
        mirror->watch.revision = atoi(ngx_strstr(text, "from=") + 5);
        ngx_str_set(&seed, "s");

        if (ngx_etcd_mirror_seed(mirror, &seed, mirror->watch.revision)
            == NULL)
        {
            return NGX_ERROR;
        }
    }

    return ngx_etcd_mirror_start(mirror, &ngx_etcd_unit_world.stream);
}


static void
ngx_etcd_unit_step(ngx_etcd_unit_script_t *script, ngx_str_t *field)
{
    ngx_uint_t          agains;
    ngx_etcd_mirror_t  *mirror;

    mirror = &script->mirror;
    agains = ngx_etcd_unit_world.agains;

    if (ngx_etcd_unit_is(field, "dump")) {
        ngx_etcd_unit_dump(mirror);

    } else if (ngx_etcd_unit_is(field, "again")) {
        ngx_etcd_mirror_again(mirror, 0);

    } else if (ngx_etcd_unit_is(field, "stop")) {
        printf(" stop=%d", (int) ngx_etcd_mirror_stop(mirror));

    } else if (ngx_etcd_unit_is(field, "oom")) {
        test_alloc_fail(ngx_etcd_unit_number(&field[1]));

    } else if (!ngx_etcd_unit_step_watch(script, field)
               && !ngx_etcd_unit_step_event(script, field)
               && !ngx_etcd_unit_step_audit(script, field))
    {
        printf(" UNKNOWN");
    }

    if (ngx_etcd_unit_world.agains != agains) {
        printf(" again");
    }
}


static ngx_uint_t
ngx_etcd_unit_step_watch(ngx_etcd_unit_script_t *script, ngx_str_t *field)
{
    int64_t            revision;
    ngx_str_t          text = ngx_string("why");
    Etcd__KeyValue     kv, *kvs;
    ngx_etcd_watch_t  *watch;

    watch = &script->mirror.watch;
    revision = ngx_etcd_unit_number(&field[1]);

    if (ngx_etcd_unit_is(field, "created")) {
        watch->creates++;
        watch->state = NGX_ETCD_WATCH_ACTIVE;

        return 1;
    }

    if (ngx_etcd_unit_is(field, "list")) {
        watch->list(watch);
        return 1;
    }

    if (ngx_etcd_unit_is(field, "key")) {
        ngx_etcd_unit_kv(&kv, field[1].data, field[1].len,
                         ngx_etcd_unit_number(&field[2]),
                         ngx_etcd_unit_number(&field[3]), field[4].data,
                         field[4].len);
        kvs = &kv;

        if (watch->keys(watch, &kvs, 1) != NGX_OK) {
            watch->failed(watch, NGX_ETCD_GRPC_INTERNAL, &text);
        }

        return 1;
    }

    if (ngx_etcd_unit_is(field, "listed")) {
        watch->revision = ngx_max(watch->revision, revision);
        while (watch->keys(watch, NULL, 0) == NGX_AGAIN) { /* void */ }
        watch->listed(watch, revision);
        watch->foreign = 0;

        return 1;
    }

    if (ngx_etcd_unit_is(field, "failed")) {
        watch->failed(watch, (ngx_etcd_grpc_status_e) revision, &text);
        return 1;
    }

    if (ngx_etcd_unit_is(field, "history")) {
        ngx_etcd_unit_world.cluster.history.changes++;
        watch->foreign = 1;
        watch->revision = 0;

        return 1;
    }

    return 0;
}


static ngx_uint_t
ngx_etcd_unit_step_event(ngx_etcd_unit_script_t *script, ngx_str_t *field)
{
    int64_t            revision;
    Etcd__Event       *event;
    ngx_etcd_watch_t  *watch;

    if (ngx_etcd_unit_is(field, "events")) {
        watch = &script->mirror.watch;
        revision = ngx_etcd_unit_number(&field[1]);

        watch->revision = ngx_max(watch->revision, revision);
        watch->events(watch, script->events, script->n, revision);
        script->n = 0;

        return 1;
    }

    event = &script->event[script->n];
    etcd__event__init(event);

    if (ngx_etcd_unit_is(field, "put")) {
        ngx_etcd_unit_kv(&script->kv[script->n], field[1].data, field[1].len,
                         ngx_etcd_unit_number(&field[2]),
                         ngx_etcd_unit_number(&field[3]), field[4].data,
                         field[4].len);

    } else if (ngx_etcd_unit_is(field, "del")) {
        ngx_etcd_unit_kv(&script->kv[script->n], field[1].data, field[1].len,
                         0, ngx_etcd_unit_number(&field[2]), NULL, 0);
        event->type = ETCD__EVENT__EVENT_TYPE__DELETE;

    } else {
        return 0;
    }

    event->kv = &script->kv[script->n];
    script->events[script->n++] = event;

    return 1;
}


static ngx_uint_t
ngx_etcd_unit_step_audit(ngx_etcd_unit_script_t *script, ngx_str_t *field)
{
    ngx_str_t               text = ngx_string("why");
    ngx_event_t            *timer;
    Etcd__KeyValue          kv, *kvs;
    ngx_etcd_list_t        *list;

    timer = &script->mirror.audit.timer;
    list = ngx_etcd_unit_world.list;

    if (ngx_etcd_unit_is(field, "audit")) {
        timer->handler(timer);
        printf(ngx_etcd_unit_world.list != NULL ? " lists" : " no-audit");

    } else if (ngx_etcd_unit_is(field, "answer")) {
        list->revision = list->pinned ? list->pinned
                                      : ngx_etcd_unit_number(&field[1]);
        list->begin(list);

    } else if (ngx_etcd_unit_is(field, "settled")) {
        ngx_etcd_unit_world.cluster.proved =
                      ngx_etcd_unit_number(&field[1]) ? (uint64_t) -1 : 0;
        ngx_etcd_unit_world.stream.reached = ngx_etcd_unit_number(&field[2]);
        timer->handler(timer);

        printf(" repairs=%lu",
               (unsigned long) ngx_etcd_unit_world.cluster.counts.repairs);

    } else if (ngx_etcd_unit_is(field, "akey")) {
        ngx_etcd_unit_kv(&kv, field[1].data, field[1].len,
                         ngx_etcd_unit_number(&field[2]),
                         ngx_etcd_unit_number(&field[3]), NULL, 0);
        kvs = &kv;

        if (list == NULL || list->keys(list, &kvs, 1) != NGX_OK) {
            printf(" no-audit");
        }

    } else if (ngx_etcd_unit_is(field, "adone")) {

        if (list == NULL) {
            printf(" no-audit");
            return 1;
        }

        if (ngx_etcd_unit_number(&field[1]) == NGX_ETCD_GRPC_OK) {
            (void) list->keys(list, NULL, 0);
        }

        ngx_etcd_unit_world.list = NULL;
        list->done(list, (ngx_etcd_grpc_status_e)
                         ngx_etcd_unit_number(&field[1]),
                   &text, list->revision);

        printf(" repairs=%lu",
               (unsigned long) ngx_etcd_unit_world.cluster.counts.repairs);

        if (ngx_etcd_unit_world.list != NULL) {
            printf(" lists@%ld", (long) ngx_etcd_unit_world.list->pinned);
        }

    } else {
        return 0;
    }

    return 1;
}


static void
ngx_etcd_unit_dump(ngx_etcd_mirror_t *mirror)
{
    ngx_etcd_mirror_entry_t  *entry;

    printf(" [%lu%s%s%s%s", (unsigned long) mirror->entries.n,
           mirror->synced ? " synced" : "", mirror->listing ? " listing" : "",
           mirror->refused ? " refused" : "",
           mirror->distrust ? " distrust" : "");

    for (entry = ngx_etcd_mirror_first(mirror);
         entry != NULL;
         entry = ngx_etcd_mirror_next(mirror, entry))
    {
        printf(" %.*s:%ld:%ld:%.*s", (int) entry->key.len, entry->key.data,
               (long) entry->create_revision, (long) entry->mod_revision,
               (int) entry->value.len,
               entry->value.len ? (char *) entry->value.data : "");

        if (ngx_etcd_mirror_find(mirror, &entry->key) != entry) {
            printf("(LOST)");
        }
    }

    printf("]");
}


static void
ngx_etcd_unit_free_held(void)
{
    ngx_queue_t            *q;
    ngx_etcd_unit_entry_t  *held;

    while (!ngx_queue_empty(&ngx_etcd_unit_held)) {
        q = ngx_queue_head(&ngx_etcd_unit_held);
        held = (ngx_etcd_unit_entry_t *)
               ngx_queue_data(q, ngx_etcd_mirror_entry_t, queue);

        printf(" held:%.*s:%d", (int) held->entry.key.len,
               held->entry.key.data, held->changes);

        ngx_queue_remove(q);
        ngx_free(held);
    }
}


static ngx_uint_t
ngx_etcd_unit_is(ngx_str_t *field, char *word)
{
    return field->len == ngx_strlen(word)
           && ngx_memcmp(field->data, word, field->len) == 0;
}


static int64_t
ngx_etcd_unit_number(ngx_str_t *field)
{
    return (field->len != 0) ? ngx_atoi(field->data, field->len) : 0;
}


static ngx_uint_t
ngx_etcd_unit_wants(ngx_etcd_mirror_t *mirror, ngx_str_t *key)
{
    return key->data[0] != 'x';
}


static void
ngx_etcd_unit_mirror_changed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_etcd_unit_entry_t  *own;

    own = (ngx_etcd_unit_entry_t *) entry;

    printf(" %s%.*s:%ld=%.*s", own->changes++ ? "~" : "+",
           (int) entry->key.len, entry->key.data, (long) entry->mod_revision,
           (int) entry->value.len,
           entry->value.len ? (char *) entry->value.data : "");
}


static void
ngx_etcd_unit_mirror_removed(ngx_etcd_mirror_t *mirror,
    ngx_etcd_mirror_entry_t *entry)
{
    ngx_etcd_unit_script_t  *script = mirror->data;

    printf(" -%.*s:%ld%s", (int) entry->key.len, entry->key.data,
           (long) entry->mod_revision,
           entry->create_revision != 0 ? "" : "?");

    if (script->held && ngx_etcd_mirror_known(entry)) {
        ngx_etcd_mirror_hold(mirror, entry);
        ngx_queue_insert_tail(&ngx_etcd_unit_held, &entry->queue);
    }
}


static void
ngx_etcd_unit_mirror_complete(ngx_etcd_mirror_t *mirror, int64_t revision)
{
    printf(" %s%ld", mirror->relisted ? "listed@" : "@", (long) revision);
}


static void
ngx_etcd_unit_mirror_denied(ngx_etcd_mirror_t *mirror,
    ngx_etcd_grpc_status_e status)
{
    printf(" denied=%d", (int) status);
}


static void
ngx_etcd_unit_mirror_foreign(ngx_etcd_mirror_t *mirror)
{
    printf(" foreign");
}
