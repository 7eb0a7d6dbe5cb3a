
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "json_same.h"


/* those of an array or object that are looked up, too: it takes n * n */

#define JSON_SAME_FOUND  64


static ngx_uint_t json_same_array(ngx_etcd_json_t *node, json_t *json);
static ngx_uint_t json_same_object(ngx_etcd_json_t *node, json_t *json);
static ngx_uint_t json_same_name(ngx_etcd_json_t *node, const char *name,
    size_t len);
static ngx_uint_t json_same_word(ngx_etcd_json_t *node, json_t *json);


ngx_uint_t
json_same(ngx_etcd_json_t *node, json_t *json)
{
    switch (json_typeof(json)) {

    case JSON_OBJECT:
        return json_same_object(node, json);

    case JSON_ARRAY:
        return json_same_array(node, json);

    case JSON_STRING:
        return node->nodes == 1
               && ngx_etcd_json_equals(node,
                                       (u_char *) json_string_value(json),
                                       json_string_length(json));

    default:
        return json_same_word(node, json);
    }
}


static ngx_uint_t
json_same_array(ngx_etcd_json_t *node, json_t *json)
{
    size_t            i;
    ngx_etcd_json_t  *element;

    if (node->type != NGX_ETCD_JSON_ARRAY
        || node->text.len != json_array_size(json)
        || ngx_etcd_json_element(node, node->text.len) != NULL)
    {
        return 0;
    }

    element = ngx_etcd_json_first(node);

    for (i = 0; i < json_array_size(json); i++) {

        if (i < JSON_SAME_FOUND && ngx_etcd_json_element(node, i) != element) {
            return 0;
        }

        if (!json_same(element, json_array_get(json, i))) {
            return 0;
        }

        element = ngx_etcd_json_next(element);
    }

    return element == ngx_etcd_json_next(node);
}


static ngx_uint_t
json_same_object(ngx_etcd_json_t *node, json_t *json)
{
    void             *iter;
    size_t            i;
    ngx_etcd_json_t  *member;

    if (node->type != NGX_ETCD_JSON_OBJECT
        || node->text.len != json_object_size(json))
    {
        return 0;
    }

    i = 0;
    member = ngx_etcd_json_first(node);

    for (iter = json_object_iter(json);
         iter != NULL;
         iter = json_object_iter_next(json, iter))
    {
        if (!json_same_name(member, json_object_iter_key(iter),
                            json_object_iter_key_len(iter))
            || !json_same(member, json_object_iter_value(iter)))
        {
            return 0;
        }

        if (i++ < JSON_SAME_FOUND
            && ngx_etcd_json_get(node, member->name.data, member->name.len)
               != member)
        {
            return 0;
        }

        member = ngx_etcd_json_next(member);
    }

    return member == ngx_etcd_json_next(node);
}


static ngx_uint_t
json_same_name(ngx_etcd_json_t *node, const char *name, size_t len)
{
    return node->name.len == len
           && ngx_memcmp(node->name.data, name, len) == 0;
}


static ngx_uint_t
json_same_word(ngx_etcd_json_t *node, json_t *json)
{
    char                  wanted[64];
    u_char                buf[NGX_ETCD_JSON_NUMBER];
    size_t                len;
    ngx_str_t             text;
    ngx_etcd_json_type_e  type;

    switch (json_typeof(json)) {

    case JSON_INTEGER:
        type = NGX_ETCD_JSON_INTEGER;
        break;

    case JSON_REAL:
        type = NGX_ETCD_JSON_REAL;
        break;

    case JSON_TRUE:
        type = NGX_ETCD_JSON_TRUE;
        break;

    case JSON_FALSE:
        type = NGX_ETCD_JSON_FALSE;
        break;

    default: /* JSON_NULL */
        type = NGX_ETCD_JSON_NULL;
        break;
    }

    len = json_dumpb(json, wanted, sizeof(wanted), JSON_ENCODE_ANY);

    return node->type == type
           && node->nodes == 1
           && ngx_etcd_json_integer(node) == json_integer_value(json)
           && ngx_etcd_json_scalar(node, buf, &text) == NGX_OK
           && text.len == len
           && ngx_memcmp(text.data, wanted, len) == 0;
}
