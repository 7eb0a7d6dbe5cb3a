
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_sha1.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_member.h>
#include <ngx_etcd_state.h>


#define NGX_ETCD_STATE_MIN_SIZE  16384


static ngx_int_t ngx_etcd_state_add(ngx_etcd_state_text_t *text, void *data,
    size_t len);

#define ngx_etcd_state_literal(text, string)                                  \
    ngx_etcd_state_add(text, string, sizeof(string) - 1)


ngx_uint_t
ngx_etcd_state_known(ngx_etcd_snapshot_t *snapshot)
{
    return snapshot->revision != 0 || snapshot->entries != NULL;
}


/*
 * Returns a string, or an object for bytes that are not UTF-8.  NULL: no
 * memory.
 */

static json_t *
ngx_etcd_state_bytes(u_char *data, size_t len)
{
    json_t     *json;
    ngx_str_t   src, base64;

    json = json_stringn((char *) data, len);

    if (json != NULL) {
        return json;
    }

    src.data = data;
    src.len = len;

    base64.data = malloc(ngx_base64_encoded_length(len) + 1);
    if (base64.data == NULL) {
        return NULL;
    }

    ngx_encode_base64(&base64, &src);

    json = json_pack("{s:o}", "base64",
                     json_stringn((char *) base64.data, base64.len));

    free(base64.data);

    return json;
}


/* Adds and frees the value; NULL: there was no memory for it. */

static ngx_int_t
ngx_etcd_state_json(ngx_etcd_state_text_t *text, json_t *value)
{
    char       *s;
    ngx_int_t   rc;

    if (value == NULL) {
        return NGX_ERROR;
    }

    s = json_dumps(value, JSON_COMPACT);
    json_decref(value);

    if (s == NULL) {
        return NGX_ERROR;
    }

    rc = ngx_etcd_state_add(text, s, ngx_strlen(s));

    free(s);

    return rc;
}


static ngx_int_t
ngx_etcd_state_begin(ngx_etcd_state_text_t *text)
{
    size_t             len;
    u_char             head[NGX_ETCD_STATE_HEAD], id[NGX_INT64_LEN];
    json_t            *json;
    ngx_etcd_state_t  *state;

    state = &text->state;

    /* reserves room for the head, whose length is constant */

    len = ngx_etcd_state_head(head, head, 0);

    if (ngx_etcd_state_add(text, head, len) != NGX_OK
        || ngx_etcd_state_literal(text, "{\"state\":") != NGX_OK)
    {
        return NGX_ERROR;
    }

    (void) ngx_sprintf(id, "%xL%Z", state->cluster_id);

    json = json_pack("{s:o, s:o, s:s, s:I}",
                     "cluster",
                     ngx_etcd_state_bytes(state->cluster.data,
                                          state->cluster.len),
                     "namespace",
                     ngx_etcd_state_bytes(state->key_namespace.data,
                                          state->key_namespace.len),
                     "cluster_id", (char *) id,
                     "revision", (json_int_t) state->revision);

    if (ngx_etcd_state_json(text, json) != NGX_OK) {
        return NGX_ERROR;
    }

    text->begun = 1;

    return ngx_etcd_state_literal(text, ",\"upstreams\":[");
}


/* Without memory for a value the object is freed, and NULL is returned. */

static json_t *
ngx_etcd_state_set(json_t *json, char *name, json_t *value)
{
    if (json_object_set_new(json, name, value) != 0) {
        json_decref(json);
        return NULL;
    }

    return json;
}


/* Adds the host name; the address is empty if none is known. */

static json_t *
ngx_etcd_state_host(json_t *json, ngx_etcd_member_pack_t *record)
{
    json = ngx_etcd_state_set(json, "host",
                              json_stringn((char *) record->host.data,
                                           record->host.len));
    json = ngx_etcd_state_set(json, "port", json_integer(record->port));
    json = ngx_etcd_state_set(json, "whole_weight",
                              json_integer(record->whole));

    if (record->unresolved) {
        json = ngx_etcd_state_set(json, "address", json_string(""));
    }

    return json;
}


/* Adds an item to a list of n items; frees the item. */

static ngx_int_t
ngx_etcd_state_item(ngx_etcd_state_text_t *text, ngx_uint_t *n, json_t *item)
{
    if ((*n)++ != 0 && ngx_etcd_state_literal(text, ",") != NGX_OK) {
        json_decref(item);
        return NGX_ERROR;
    }

    if (ngx_etcd_state_literal(text, "\n") != NGX_OK) {
        json_decref(item);
        return NGX_ERROR;
    }

    return ngx_etcd_state_json(text, item);
}


/* Attributes have the names that they have in etcd, and the same decoder. */

static ngx_int_t
ngx_etcd_state_member(ngx_etcd_state_text_t *text, ngx_etcd_copy_t *copy)
{
    u_char                   slow_start[NGX_INT64_LEN + sizeof("ms")];
    json_t                  *json;
    ngx_etcd_member_pack_t   record;
    ngx_etcd_member_attr_t  *attr;

    ngx_etcd_member_pack_read(&record, copy->payload);
    attr = &record.attr;

    (void) ngx_sprintf(slow_start, "%uDms%Z", attr->slow_start);

    json = json_pack("{s:o, s:I, s:I, s:I, s:b, s:o,"
                     " s:I, s:I, s:I, s:I, s:s, s:I, s:b, s:b, s:b, s:b}",
                     "key",
                     ngx_etcd_state_bytes(copy->key.data, copy->key.len),
                     "create_revision", (json_int_t) copy->create_revision,
                     "mod_revision", (json_int_t) copy->mod_revision,
                     "lease", (json_int_t) copy->lease,
                     "gone", (int) (copy->gone != 0),
                     "address",
                     ngx_etcd_state_bytes(record.name.data, record.name.len),
                     "weight", (json_int_t) attr->weight,
                     "max_fails", (json_int_t) attr->max_fails,
                     "max_conns", (json_int_t) attr->max_conns,
                     "fail_timeout", (json_int_t) attr->fail_timeout,
                     "slow_start", (char *) slow_start,
                     "priority", (json_int_t) attr->priority,
                     "down", (int) attr->down,
                     "backup", (int) attr->backup,
                     "drain", (int) attr->drain,
                     "near", (int) attr->near);

    if (copy->gone == NGX_ETCD_ENTRY_HELD) {
        json = ngx_etcd_state_set(json, "held", json_true());
    }

    if (record.route.len != 0) {
        json = ngx_etcd_state_set(json, "route",
                                  json_stringn((char *) record.route.data,
                                               record.route.len));
    }

    if (record.host.len != 0) {
        json = ngx_etcd_state_host(json, &record);
    }

    return ngx_etcd_state_item(text, &text->nmembers, json);
}


/* A time of ngx_etcd_clock(), in s since the epoch: it outlives a boot. */

static json_int_t
ngx_etcd_state_time(uint64_t time)
{
    return ngx_time() + ((int64_t) (time - ngx_etcd_clock()) + 500) / 1000;
}


/* NULL: no memory. */

static json_t *
ngx_etcd_state_upstream(ngx_etcd_snapshot_t *snapshot)
{
    json_t  *json;

    json = json_pack("{s:o, s:b, s:o, s:I, s:I}",
                     "name",
                     ngx_etcd_state_bytes(snapshot->name.data,
                                          snapshot->name.len),
                     "stream", (int) snapshot->stream,
                     "prefix",
                     ngx_etcd_state_bytes(snapshot->prefix.data,
                                          snapshot->prefix.len),
                     "params", (json_int_t) snapshot->params,
                     "revision", (json_int_t) snapshot->revision);

    if (snapshot->held_until != 0) {
        json = ngx_etcd_state_set(json, "held_until",
                                  json_integer(ngx_etcd_state_time(
                                                      snapshot->held_until)));
    }

    if (snapshot->id != 0) {
        json = ngx_etcd_state_set(json, "pattern",
                                  ngx_etcd_state_bytes(snapshot->pattern.data,
                                                       snapshot->pattern.len));
    }

    return json;
}


static ngx_int_t
ngx_etcd_state_open(ngx_etcd_state_text_t *text, ngx_etcd_snapshot_t *snapshot)
{
    if (text->n != 1 && ngx_etcd_state_literal(text, ",") != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_etcd_state_literal(text, "\n{\"upstream\":") != NGX_OK) {
        return NGX_ERROR;
    }

    if (ngx_etcd_state_json(text, ngx_etcd_state_upstream(snapshot)) != NGX_OK)
    {
        return NGX_ERROR;
    }

    text->open = 1;
    text->nmembers = 0;
    text->copy = snapshot->entries;

    return ngx_etcd_state_literal(text, ",\"members\":[");
}


/* Ends the list of upstreams and begins the list of values. */

static ngx_int_t
ngx_etcd_state_listed(ngx_etcd_state_text_t *text)
{
    if (text->listed) {
        return NGX_OK;
    }

    text->listed = 1;

    return ngx_etcd_state_literal(text, "\n],\"values\":[");
}


static ngx_int_t
ngx_etcd_state_end(ngx_etcd_state_text_t *text)
{
    size_t  len;
    u_char  head[NGX_ETCD_STATE_HEAD];

    if (ngx_etcd_state_listed(text) != NGX_OK
        || ngx_etcd_state_literal(text, "\n]}") != NGX_OK)
    {
        return NGX_ERROR;
    }

    len = ngx_etcd_state_head(head, head, 0);
    len = ngx_etcd_state_head(head, text->data + len, text->len - len);

    ngx_memcpy(text->data, head, len);

    return ngx_etcd_state_literal(text, NGX_ETCD_STATE_TAIL);
}


static ngx_int_t
ngx_etcd_state_value(ngx_etcd_state_text_t *text,
    ngx_etcd_state_value_t *value)
{
    json_t  *json;

    json = json_pack("{s:o, s:I, s:o}",
                     "key",
                     ngx_etcd_state_bytes(value->key.data, value->key.len),
                     "mod_revision", (json_int_t) value->modified,
                     "value",
                     ngx_etcd_state_bytes(value->value.data,
                                          value->value.len));

    if (ngx_etcd_state_listed(text) != NGX_OK) {
        json_decref(json);
        return NGX_ERROR;
    }

    return ngx_etcd_state_item(text, &text->nvalues, json);
}


ngx_int_t
ngx_etcd_state_encode(ngx_etcd_state_text_t *text)
{
    ngx_uint_t               i;
    ngx_etcd_snapshot_t     *snapshots;
    ngx_etcd_state_value_t  *values;

    snapshots = text->snapshots->elts;
    values = text->values->elts;

    if (!text->begun && ngx_etcd_state_begin(text) != NGX_OK) {
        return NGX_ERROR;
    }

    for (i = 0; i < NGX_ETCD_STATE_PIECE; i++) {

        if (text->copy != NULL) {
            if (ngx_etcd_state_member(text, text->copy) != NGX_OK) {
                return NGX_ERROR;
            }

            text->copy = text->copy->next;
            continue;
        }

        if (text->open) {
            if (ngx_etcd_state_literal(text, "\n]}") != NGX_OK) {
                return NGX_ERROR;
            }

            text->open = 0;
        }

        if (text->n < text->snapshots->nelts) {
            if (ngx_etcd_state_open(text, &snapshots[text->n++]) != NGX_OK) {
                return NGX_ERROR;
            }

            continue;
        }

        if (text->next == text->values->nelts) {
            return ngx_etcd_state_end(text);
        }

        if (ngx_etcd_state_value(text, &values[text->next++]) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_AGAIN;
}


static ngx_int_t
ngx_etcd_state_add(ngx_etcd_state_text_t *text, void *data, size_t len)
{
    size_t   size;
    u_char  *p;

    if (len > text->size - text->len) {

        size = ngx_max(text->size, NGX_ETCD_STATE_MIN_SIZE);

        while (size - text->len < len) {
            size *= 2;
        }

        p = ngx_alloc(size, text->log);
        if (p == NULL) {
            return NGX_ERROR;
        }

        if (text->data != NULL) {
            ngx_memcpy(p, text->data, text->len);
            ngx_free(text->data);
        }

        text->data = p;
        text->size = size;
    }

    ngx_memcpy(text->data + text->len, data, len);
    text->len += len;

    return NGX_OK;
}


size_t
ngx_etcd_state_head(u_char *buf, u_char *content, size_t len)
{
    u_char      *p;
    u_char       digest[20];
    ngx_sha1_t   sha1;

    ngx_sha1_init(&sha1);
    ngx_sha1_update(&sha1, content, len);
    ngx_sha1_final(digest, &sha1);

    p = ngx_sprintf(buf, "{\"version\":%d,\"sha1\":\"",
                    NGX_ETCD_STATE_VERSION);
    p = ngx_hex_dump(p, digest, sizeof(digest));
    p = ngx_cpymem(p, "\",\"content\":\n", sizeof("\",\"content\":\n") - 1);

    return p - buf;
}
