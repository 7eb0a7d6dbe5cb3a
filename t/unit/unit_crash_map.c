
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Keys with variables in the crash test.  A value is a digit, and so many
 * letters: what is found is known by the digit, and is whole.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_set_map.h>
#include <ngx_etcd_value_change.h>
#include "unit_crash.h"


#define NGX_ETCD_CRASH_MAP_LETTERS   40       /* for each unit of the digit */
#define NGX_ETCD_CRASH_MAP_VALUE     (1 + 9 * NGX_ETCD_CRASH_MAP_LETTERS)
#define NGX_ETCD_CRASH_MAP_REVISION  100      /* of a value, plus the digit */


static ngx_str_t  ngx_etcd_crash_map_names[NGX_ETCD_CRASH_MAP_NAMES] = {
    ngx_string("/s/one/"),
    ngx_string("/s/two/"),
    ngx_string("/s/three/"),
    ngx_string("/s/four/"),
    ngx_string("/s/five/")
};

static ngx_etcd_set_map_t         *ngx_etcd_crash_map;
static uint32_t                    ngx_etcd_crash_map_id;
static ngx_etcd_value_map_conf_t   ngx_etcd_crash_map_values;


static void
ngx_etcd_crash_map_done(ngx_int_t rc, char *what)
{
    if (rc != NGX_OK) {
        ngx_etcd_crash_fault("%s: %ld", what, (long) rc);
    }
}


/* the value of that digit, or another change of that name */

static void
ngx_etcd_crash_map_change(ngx_etcd_value_change_t *change, ngx_uint_t name,
    ngx_etcd_value_op_e op, uint64_t n)
{
    static u_char  values[NGX_ETCD_CRASH_MAP_NAMES][NGX_ETCD_CRASH_MAP_VALUE];

    ngx_memzero(change, sizeof(ngx_etcd_value_change_t));

    change->op = op;
    change->key = ngx_etcd_crash_map_names[name];
    change->revision = n;

    if (op == NGX_ETCD_VALUE_PUT) {
        change->revision = NGX_ETCD_CRASH_MAP_REVISION + n;
        change->value.data = values[name];
        change->value.len = 1 + n * NGX_ETCD_CRASH_MAP_LETTERS;

        ngx_memset(values[name], 'a' + n, change->value.len);
        values[name][0] = '0' + n;
    }
}


/* changes of one revision */

static void
ngx_etcd_crash_map_write(ngx_etcd_value_change_t *changes, ngx_uint_t n)
{
    ngx_uint_t                i;
    ngx_etcd_zone_t          *zone;
    ngx_etcd_value_change_t  *list[NGX_ETCD_CRASH_MAP_NAMES];

    zone = ngx_etcd_crash_map_values.zone;

    for (i = 0; i < n; i++) {
        list[i] = &changes[i];
    }

    ngx_etcd_crash_map_done(ngx_etcd_zone_lock_patient(zone),
                            "the mutex is held for ever");

    (void) ngx_etcd_value_change(&ngx_etcd_crash_map_values, list, n);

    ngx_etcd_zone_unlock(zone);
}


static ngx_etcd_set_map_t *
ngx_etcd_crash_map_declared(ngx_str_t *name)
{
    ngx_etcd_object_id_t  id;

    ngx_memzero(&id, sizeof(ngx_etcd_object_id_t));

    id.name = *name;
    id.prefix = *name;

    return ngx_etcd_set_map_declare(&ngx_etcd_crash.zone, &id, 16);
}


static ngx_int_t
ngx_etcd_crash_map_values_declared(ngx_etcd_value_map_conf_t *conf, char *name)
{
    ngx_str_t  ns = ngx_null_string;

    ngx_memzero(conf, sizeof(ngx_etcd_value_map_conf_t));

    conf->literal.data = (u_char *) name;
    conf->literal.len = ngx_strlen(name);
    conf->limit = 16;
    conf->max_size = NGX_ETCD_CRASH_MAP_VALUE;

    return ngx_etcd_value_object_declare(conf, &ns, &ngx_etcd_crash.zone, NULL);
}


static void
ngx_etcd_crash_map_add(ngx_uint_t name)
{
    ngx_int_t             rc;
    ngx_etcd_set_found_t  found;

    rc = ngx_etcd_set_map_add(&ngx_etcd_crash.zone, ngx_etcd_crash_map,
                              &ngx_etcd_crash_map_names[name], 1, 0, &found);

    ngx_etcd_crash_map_done(rc, "a set cannot be added");
}


ngx_int_t
ngx_etcd_crash_map_world(ngx_etcd_zone_t *zone)
{
    ngx_str_t                name = ngx_string("catalog");
    ngx_etcd_set_node_t     *node;
    ngx_etcd_value_change_t  changes[4];

    ngx_etcd_crash_map = ngx_etcd_crash_map_declared(&name);

    if (ngx_etcd_crash_map == NULL
        || ngx_etcd_crash_map_values_declared(&ngx_etcd_crash_map_values,
                                              "/v/")
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_etcd_crash_map_id = ngx_etcd_crash_map->object.id;

    ngx_etcd_crash_map_add(0);
    ngx_etcd_crash_map_add(1);
    ngx_etcd_crash_map_add(2);

    for (node = ngx_etcd_set_map_first(ngx_etcd_crash_map);
         node != NULL;
         node = ngx_etcd_set_map_next(ngx_etcd_crash_map, node))
    {
        if (ngx_etcd_member_set_grow(zone, node->set, 0) != NGX_OK) {
            return NGX_ERROR;
        }

        node->set->commit.requests = 7;
        ngx_etcd_member_set_slot(node->set, 1)->requests = 100;
    }

    ngx_etcd_crash_map_change(&changes[0], 0, NGX_ETCD_VALUE_PUT, 1);
    ngx_etcd_crash_map_change(&changes[1], 1, NGX_ETCD_VALUE_PUT, 1);
    ngx_etcd_crash_map_change(&changes[2], 2, NGX_ETCD_VALUE_PUT, 2);
    ngx_etcd_crash_map_change(&changes[3], 3, NGX_ETCD_VALUE_REFUSE, 30);
    ngx_etcd_crash_map_write(changes, 4);

    return NGX_OK;
}


static ngx_uint_t
ngx_etcd_crash_map_kept(void)
{
    return ngx_etcd_crash_map->object.id == ngx_etcd_crash_map_id
           && !ngx_etcd_object_old(&ngx_etcd_crash.zone,
                                   &ngx_etcd_crash_map->object);
}


static ngx_uint_t
ngx_etcd_crash_map_values_kept(void)
{
    return ngx_etcd_crash_map_values.map->object.id
           == ngx_etcd_crash_map_values.id
           && !ngx_etcd_object_old(&ngx_etcd_crash.zone,
                                   &ngx_etcd_crash_map_values.map->object);
}


static void
ngx_etcd_crash_map_look_value(ngx_etcd_crash_map_state_t *state, ngx_uint_t n)
{
    u_char                      buf[NGX_ETCD_CRASH_MAP_VALUE];
    ngx_int_t                   rc;
    ngx_uint_t                  i;
    ngx_etcd_value_node_t      *node;
    ngx_etcd_value_map_read_t   read;

    read.part = NGX_ETCD_VALUE_MAP_TEXT;
    read.buf = buf;

    rc = ngx_etcd_value_map_get(&ngx_etcd_crash_map_values,
                                &ngx_etcd_crash_map_names[n], &read);
    if (rc == NGX_AGAIN) {
        ngx_etcd_crash_fault("a value cannot be read");
    }

    if (rc == NGX_OK) {
        state->values[n] = buf[0] - '0';

        if (read.value.len
            != 1 + state->values[n] * NGX_ETCD_CRASH_MAP_LETTERS)
        {
            ngx_etcd_crash_fault("a value has another length");
        }

        for (i = 1; i < read.value.len; i++) {
            if (buf[i] != 'a' + state->values[n]) {
                ngx_etcd_crash_fault("a value is torn");
            }
        }
    }

    node = ngx_etcd_value_map_find(&ngx_etcd_crash_map_values,
                                   &ngx_etcd_crash_map_names[n]);
    if (node != NULL) {
        state->refused[n] = node->refused;
    }
}


void
ngx_etcd_crash_map_look(ngx_etcd_crash_map_state_t *state)
{
    ngx_int_t              rc;
    ngx_uint_t             i;
    ngx_etcd_zone_t       *zone;
    ngx_etcd_set_node_t   *node;
    ngx_etcd_set_found_t   found;

    zone = &ngx_etcd_crash.zone;

    for (i = 0; i < NGX_ETCD_CRASH_MAP_NAMES; i++) {
        if (ngx_etcd_crash_map_kept()) {
            rc = ngx_etcd_set_map_find(zone, ngx_etcd_crash_map,
                                       &ngx_etcd_crash_map_names[i], &found);
            if (rc == NGX_AGAIN) {
                ngx_etcd_crash_fault("a set cannot be searched for");
            }

            state->sets[i] = (rc == NGX_OK);
        }

        if (ngx_etcd_crash_map_values_kept()) {
            ngx_etcd_crash_map_look_value(state, i);
        }
    }

    if (!ngx_etcd_crash_map_kept()) {
        return;
    }

    state->requests = ngx_etcd_crash_map->requests;

    for (node = ngx_etcd_set_map_first(ngx_etcd_crash_map);
         node != NULL;
         node = ngx_etcd_set_map_next(ngx_etcd_crash_map, node))
    {
        state->requests += ngx_etcd_crash_requests(node->set);
    }
}


/* in the order of the agent */

void
ngx_etcd_crash_map_take_over(void)
{
    ngx_etcd_zone_t  *zone;

    zone = &ngx_etcd_crash.zone;

    ngx_etcd_crash_map_done(ngx_etcd_set_map_retire_old(zone),
                            "set maps cannot be retired");
    ngx_etcd_crash_map_done(ngx_etcd_value_object_retire_old(zone,
                                                             (uint64_t) -1),
                            "value maps cannot be retired");
}


static ngx_etcd_set_node_t *
ngx_etcd_crash_map_node(ngx_str_t *name)
{
    ngx_etcd_set_node_t  *node;

    for (node = ngx_etcd_set_map_first(ngx_etcd_crash_map);
         node != NULL;
         node = ngx_etcd_set_map_next(ngx_etcd_crash_map, node))
    {
        if (node->len == name->len
            && ngx_memcmp(node->prefix, name->data, name->len) == 0)
        {
            break;
        }
    }

    return node;
}


static void
ngx_etcd_crash_map_remove(ngx_uint_t name)
{
    ngx_etcd_zone_t        *zone;
    ngx_etcd_set_node_t    *node;
    ngx_etcd_member_set_t  *set;

    zone = &ngx_etcd_crash.zone;
    node = ngx_etcd_crash_map_node(&ngx_etcd_crash_map_names[name]);
    set = node->set;

    ngx_etcd_crash_map_done(ngx_etcd_set_map_remove(zone, ngx_etcd_crash_map,
                                                    set),
                            "a set cannot be removed");
    ngx_etcd_crash_map_done(ngx_etcd_retire_one(zone, set, (uint64_t) -1),
                            "a set cannot be retired");
    ngx_etcd_set_map_changed(ngx_etcd_crash_map, set);
}


static void
ngx_etcd_crash_map_list(void)
{
    ngx_uint_t                   i;
    ngx_etcd_set_node_t         *node;
    ngx_etcd_crash_map_state_t  *after;

    after = &ngx_etcd_crash.after->maps;

    for (i = 0; i < NGX_ETCD_CRASH_MAP_NAMES; i++) {
        node = ngx_etcd_crash_map_node(&ngx_etcd_crash_map_names[i]);

        if (node == NULL && after->sets[i]) {
            ngx_etcd_crash_map_add(i);
        }

        if (node != NULL && !after->sets[i]) {
            ngx_etcd_crash_map_remove(i);
        }
    }
}


/* a list has the newest value of each key, which may be an invalid one */

static void
ngx_etcd_crash_map_list_values(void)
{
    ngx_uint_t                   i, n;
    ngx_etcd_value_change_t      changes[NGX_ETCD_CRASH_MAP_NAMES];
    ngx_etcd_crash_map_state_t  *after;

    after = &ngx_etcd_crash.after->maps;
    n = 0;

    for (i = 0; i < NGX_ETCD_CRASH_MAP_NAMES; i++) {

        if (after->refused[i] != 0) {
            ngx_etcd_crash_map_change(&changes[n], i, NGX_ETCD_VALUE_REFUSE,
                                      after->refused[i]);

        } else if (after->values[i] != 0) {
            ngx_etcd_crash_map_change(&changes[n], i, NGX_ETCD_VALUE_PUT,
                                      after->values[i]);

        } else {
            ngx_etcd_crash_map_change(&changes[n], i, NGX_ETCD_VALUE_REMOVE,
                                      0);
        }

        n += !ngx_etcd_value_change_known(&ngx_etcd_crash_map_values,
                                          &changes[n]);
    }

    ngx_etcd_crash_map_write(changes, n);
}


void
ngx_etcd_crash_map_catch_up(void)
{
    if (ngx_etcd_crash_map_kept()) {
        ngx_etcd_crash_map_list();
    }

    if (ngx_etcd_crash_map_values_kept()) {
        ngx_etcd_crash_map_list_values();
    }
}


#define ngx_etcd_crash_map_either(now, field, what)                           \
    if (ngx_memcmp(&(now)->field, &ngx_etcd_crash.after->maps.field,          \
                   sizeof((now)->field)) != 0                                 \
        && (whole                                                             \
            || ngx_memcmp(&(now)->field, &ngx_etcd_crash.before->maps.field,  \
                          sizeof((now)->field)) != 0))                        \
    {                                                                         \
        ngx_etcd_crash_fault("%s: " what, when);                              \
    }


void
ngx_etcd_crash_map_readers(char *when, ngx_uint_t whole)
{
    ngx_etcd_crash_map_state_t  now;

    ngx_memzero(&now, sizeof(ngx_etcd_crash_map_state_t));

    ngx_etcd_crash_map_look(&now);

    if (ngx_etcd_crash_map_kept()) {
        ngx_etcd_crash_map_either(&now, sets, "sets are other ones");
        ngx_etcd_crash_map_either(&now, requests, "requests are lost");
    }

    if (ngx_etcd_crash_map_values_kept()) {
        ngx_etcd_crash_map_either(&now, values, "half a revision of values");
        ngx_etcd_crash_map_either(&now, refused, "half a revision of refused");
    }
}


/* a node of each set, and a set that is known for each node */

static void
ngx_etcd_crash_map_sets(void)
{
    ngx_uint_t            nodes, sets;
    ngx_queue_t          *q, *list;
    ngx_etcd_object_t    *object;
    ngx_etcd_set_node_t  *node;

    nodes = 0;
    sets = 0;

    for (node = ngx_etcd_set_map_first(ngx_etcd_crash_map);
         node != NULL;
         node = ngx_etcd_set_map_next(ngx_etcd_crash_map, node))
    {
        ngx_etcd_crash_meet(node, sizeof(ngx_etcd_set_node_t), "a node");
        nodes++;

        if (node->queue.next->prev != &node->queue
            || node->queue.prev->next != &node->queue)
        {
            ngx_etcd_crash_fault("a queue of nodes is torn");
        }

        if (node->set->object.id != node->set_id) {
            ngx_etcd_crash_fault("a node has no set");
        }
    }

    list = &ngx_etcd_crash.zone.sh->objects[NGX_ETCD_ZONE_SETS];

    for (q = list->next; q != list; q = q->next) {
        object = ngx_queue_data(q, ngx_etcd_object_t, queue);

        sets += (object->variant & 0x80000000) != 0
                && !ngx_etcd_object_old(&ngx_etcd_crash.zone, object);
    }

    if (nodes != ngx_etcd_crash_map->map.n || nodes != sets) {
        ngx_etcd_crash_fault("%lu nodes, %lu sets, %lu are counted",
                             (unsigned long) nodes, (unsigned long) sets,
                             (unsigned long) ngx_etcd_crash_map->map.n);
    }
}


static void
ngx_etcd_crash_map_nodes(ngx_etcd_value_map_t *map)
{
    ngx_uint_t               i, n, refused;
    ngx_etcd_shared_node_t  *node;

    n = 0;
    refused = 0;

    for (i = 0; i < map->map.nchains; i++) {
        for (node = map->map.chains[i]; node != NULL; node = node->next) {
            ngx_etcd_crash_meet(node, sizeof(ngx_etcd_value_node_t),
                                "a value");

            if ((node->hash & (map->map.nchains - 1)) != i) {
                ngx_etcd_crash_fault("a value is in another chain");
            }

            n++;
            refused += ((ngx_etcd_value_node_t *) node)->refused != 0;
        }
    }

    if (n != map->map.n || refused != map->map.refused) {
        ngx_etcd_crash_fault("%lu values instead of %lu, %lu refused instead "
                             "of %lu", (unsigned long) n,
                             (unsigned long) map->map.n,
                             (unsigned long) refused,
                             (unsigned long) map->map.refused);
    }

    if (ngx_etcd_crash.zone.sh->batch.map != NULL) {
        ngx_etcd_crash_fault("a batch is left");
    }
}


void
ngx_etcd_crash_map_invariants(void)
{
    if (ngx_etcd_crash_map_kept()) {
        ngx_etcd_crash_map_sets();
    }

    if (ngx_etcd_crash_map_values_kept()) {
        ngx_etcd_crash_map_nodes(ngx_etcd_crash_map_values.map);
    }
}


void
ngx_etcd_crash_set_add(void)
{
    ngx_etcd_crash_map_add(3);
}


void
ngx_etcd_crash_set_remove(void)
{
    ngx_etcd_crash_map_remove(1);
}


void
ngx_etcd_crash_map_declare(void)
{
    ngx_str_t  name = ngx_string("one more");

    (void) ngx_etcd_crash_map_declared(&name);
}


void
ngx_etcd_crash_map_declare_values(void)
{
    static ngx_etcd_value_map_conf_t  conf;

    (void) ngx_etcd_crash_map_values_declared(&conf, "/w/");
}


void
ngx_etcd_crash_map_retire(void)
{
    (void) ngx_etcd_set_map_retire_old(&ngx_etcd_crash.zone);
}


/* one revision, which changes, adds, removes and refuses */

void
ngx_etcd_crash_values(void)
{
    ngx_etcd_value_change_t  changes[5];

    ngx_etcd_crash_map_change(&changes[0], 0, NGX_ETCD_VALUE_PUT, 3);
    ngx_etcd_crash_map_change(&changes[1], 1, NGX_ETCD_VALUE_REMOVE, 31);
    ngx_etcd_crash_map_change(&changes[2], 2, NGX_ETCD_VALUE_REFUSE, 31);
    ngx_etcd_crash_map_change(&changes[3], 3, NGX_ETCD_VALUE_PUT, 4);
    ngx_etcd_crash_map_change(&changes[4], 4, NGX_ETCD_VALUE_PUT, 5);
    ngx_etcd_crash_map_write(changes, 5);
}


/* etcd does not send this: a key is removed and put by one revision */

void
ngx_etcd_crash_values_twice(void)
{
    ngx_etcd_value_change_t  changes[3];

    ngx_etcd_crash_map_change(&changes[0], 1, NGX_ETCD_VALUE_REMOVE, 31);
    ngx_etcd_crash_map_change(&changes[1], 2, NGX_ETCD_VALUE_PUT, 6);
    ngx_etcd_crash_map_change(&changes[2], 1, NGX_ETCD_VALUE_PUT, 7);
    ngx_etcd_crash_map_write(changes, 3);
}


void
ngx_etcd_crash_values_retire(void)
{
    (void) ngx_etcd_value_object_retire_old(&ngx_etcd_crash.zone,
                                            (uint64_t) -1);
}
