
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_sha1.h>
#include <ngx_etcd_attribute.h>
#include <ngx_etcd_state.h>


#define NGX_ETCD_STATE_MAGIC     "nginx-etcd state"
#define NGX_ETCD_STATE_SHA1      20

/* bytes before the checksum, before the records, and of a record's head */

#define NGX_ETCD_STATE_SUM       (sizeof(NGX_ETCD_STATE_MAGIC) - 1 + 4)
#define NGX_ETCD_STATE_RECORDS   (NGX_ETCD_STATE_SUM + NGX_ETCD_STATE_SHA1)
#define NGX_ETCD_STATE_HEAD      36

#define NGX_ETCD_STATE_MIN_SIZE  16384


/* flags of a member */

#define NGX_ETCD_STATE_DOWN      0x01
#define NGX_ETCD_STATE_BACKUP    0x02
#define NGX_ETCD_STATE_DRAIN     0x04
#define NGX_ETCD_STATE_NEAR      0x08
#define NGX_ETCD_STATE_ORDERED   0x10


/* the numbers of a member, 32 bits each */

static const struct {
    char                         *name;
    size_t                        offset;
    uint32_t                      min;
    uint32_t                      max;
} ngx_etcd_state_numbers[] = {

    { "weight", offsetof(ngx_etcd_member_attr_t, weight),
      1, NGX_ETCD_MEMBER_MAX_WEIGHT },

    { "max_fails", offsetof(ngx_etcd_member_attr_t, max_fails),
      0, NGX_ETCD_ATTR_MAX },

    { "max_conns", offsetof(ngx_etcd_member_attr_t, max_conns),
      0, NGX_ETCD_ATTR_MAX },

    { "fail_timeout", offsetof(ngx_etcd_member_attr_t, fail_timeout),
      0, NGX_ETCD_ATTR_MAX_TIME },

    { "slow_start", offsetof(ngx_etcd_member_attr_t, slow_start),
      0, NGX_ETCD_ATTR_MAX_TIME * 1000 },

    { "priority", offsetof(ngx_etcd_member_attr_t, priority),
      0, NGX_ETCD_MEMBER_MAX_PRIORITY },

    { NULL, 0, 0, 0 }
};


static u_char *
ngx_etcd_state_write(u_char *p, uint64_t value, ngx_uint_t bytes)
{
    while (bytes-- != 0) {
        *p++ = (u_char) (value >> 8 * bytes);
    }

    return p;
}


static uint64_t
ngx_etcd_state_read(u_char **p, ngx_uint_t bytes)
{
    uint64_t  value;

    for (value = 0; bytes != 0; bytes--) {
        value = value << 8 | *(*p)++;
    }

    return value;
}


static u_char *
ngx_etcd_state_copy(u_char *p, ngx_str_t *bytes)
{
    return (bytes->len != 0) ? ngx_cpymem(p, bytes->data, bytes->len) : p;
}


static ngx_int_t
ngx_etcd_state_grow(ngx_etcd_state_text_t *text, size_t len)
{
    size_t   size;
    u_char  *p;

    if (text->len + len <= text->size) {
        return NGX_OK;
    }

    size = ngx_max(text->size, NGX_ETCD_STATE_MIN_SIZE);

    while (size < text->len + len) {
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

    return NGX_OK;
}


ngx_int_t
ngx_etcd_state_reserve(ngx_etcd_state_text_t *text)
{
    return ngx_etcd_state_grow(text, ngx_max(text->size / 4,
                                             NGX_ETCD_STATE_MIN_SIZE / 4));
}


ngx_int_t
ngx_etcd_state_put(ngx_etcd_state_text_t *text,
    ngx_etcd_state_record_t *record)
{
    size_t   len;
    u_char  *p;

    if (text->len == 0) {
        text->len = NGX_ETCD_STATE_RECORDS;
    }

    len = NGX_ETCD_STATE_HEAD + record->literal.len + record->key.len
          + record->data.len;

    if (ngx_etcd_state_grow(text, len) != NGX_OK) {
        return NGX_ERROR;
    }

    p = text->data + text->len;

    *p++ = (u_char) record->kind;
    *p++ = (u_char) record->flags;

    p = ngx_etcd_state_write(p, 0, 2);
    p = ngx_etcd_state_write(p, record->literal.len + record->key.len, 4);
    p = ngx_etcd_state_write(p, record->data.len, 4);
    p = ngx_etcd_state_write(p, record->created, 8);
    p = ngx_etcd_state_write(p, record->modified, 8);
    p = ngx_etcd_state_write(p, record->lease, 8);
    p = ngx_etcd_state_copy(p, &record->literal);
    p = ngx_etcd_state_copy(p, &record->key);

    (void) ngx_etcd_state_copy(p, &record->data);

    text->len += len;

    return NGX_OK;
}


static void
ngx_etcd_state_sum(u_char *sum, u_char *text, size_t len)
{
    ngx_sha1_t  sha1;

    ngx_sha1_init(&sha1);
    ngx_sha1_update(&sha1, text + NGX_ETCD_STATE_RECORDS,
                    len - NGX_ETCD_STATE_RECORDS);
    ngx_sha1_final(sum, &sha1);
}


void
ngx_etcd_state_seal(ngx_etcd_state_text_t *text)
{
    u_char  *p;

    p = ngx_cpymem(text->data, NGX_ETCD_STATE_MAGIC,
                   sizeof(NGX_ETCD_STATE_MAGIC) - 1);
    p = ngx_etcd_state_write(p, NGX_ETCD_STATE_VERSION, 4);

    ngx_etcd_state_sum(p, text->data, text->len);
}


size_t
ngx_etcd_state_member(u_char *data, u_char *payload)
{
    u_char                   *p;
    ngx_uint_t                i;
    ngx_etcd_member_pack_t    member;
    ngx_etcd_member_attr_t   *attr;

    ngx_etcd_member_pack_read(&member, payload);

    attr = &member.attr;
    p = data;

    for (i = 0; ngx_etcd_state_numbers[i].name != NULL; i++) {
        p = ngx_etcd_state_write(p, *(uint32_t *) ((u_char *) attr
                                          + ngx_etcd_state_numbers[i].offset),
                                 4);
    }

    /* a member without an address has the reason in its place */

    if (member.host.len == 0) {
        member.port = 0;
        member.whole = 0;

    } else if (member.unresolved) {
        member.name.len = 0;
    }

    *p++ = (attr->down ? NGX_ETCD_STATE_DOWN : 0)
           | (attr->backup ? NGX_ETCD_STATE_BACKUP : 0)
           | (attr->drain ? NGX_ETCD_STATE_DRAIN : 0)
           | (attr->near ? NGX_ETCD_STATE_NEAR : 0)
           | (attr->ordered ? NGX_ETCD_STATE_ORDERED : 0);

    p = ngx_etcd_state_write(p, member.port, 2);
    p = ngx_etcd_state_write(p, member.whole, 2);

    *p++ = (u_char) member.name.len;
    *p++ = (u_char) member.route.len;
    *p++ = (u_char) member.host.len;

    p = ngx_etcd_state_copy(p, &member.name);
    p = ngx_etcd_state_copy(p, &member.route);
    p = ngx_etcd_state_copy(p, &member.host);

    return p - data;
}


ngx_uint_t
ngx_etcd_state_version(ngx_str_t *text)
{
    u_char  *p;

    if (text->len < NGX_ETCD_STATE_RECORDS
        || ngx_memcmp(text->data, NGX_ETCD_STATE_MAGIC,
                      sizeof(NGX_ETCD_STATE_MAGIC) - 1)
           != 0)
    {
        return 0;
    }

    p = text->data + sizeof(NGX_ETCD_STATE_MAGIC) - 1;

    return ngx_etcd_state_read(&p, 4);
}


ngx_int_t
ngx_etcd_state_open(ngx_str_t *text)
{
    u_char  sum[NGX_ETCD_STATE_SHA1];

    ngx_etcd_state_sum(sum, text->data, text->len);

    if (ngx_memcmp(sum, text->data + NGX_ETCD_STATE_SUM, NGX_ETCD_STATE_SHA1)
        != 0)
    {
        return NGX_ERROR;
    }

    text->data += NGX_ETCD_STATE_RECORDS;
    text->len -= NGX_ETCD_STATE_RECORDS;

    return NGX_OK;
}


char *
ngx_etcd_state_get(ngx_str_t *rest, ngx_etcd_state_record_t *record)
{
    size_t   left;
    u_char  *p;

    if (rest->len < NGX_ETCD_STATE_HEAD) {
        return (rest->len == 0) ? "the end is missing" : "a record is cut off";
    }

    p = rest->data;
    left = rest->len - NGX_ETCD_STATE_HEAD;

    record->kind = *p++;
    record->flags = *p++;
    p += 2;

    record->key.len = ngx_etcd_state_read(&p, 4);
    record->data.len = ngx_etcd_state_read(&p, 4);
    record->created = ngx_etcd_state_read(&p, 8);
    record->modified = ngx_etcd_state_read(&p, 8);
    record->lease = ngx_etcd_state_read(&p, 8);

    if (record->key.len > left || record->data.len > left - record->key.len) {
        return "a record is longer than the rest";
    }

    record->key.data = p;
    record->data.data = p + record->key.len;

    rest->data = record->data.data + record->data.len;
    rest->len = left - record->key.len - record->data.len;

    /* an origin has an id in place of the other revision */

    return (record->modified > INT64_MAX
            || (record->kind == NGX_ETCD_STATE_MEMBER
                && record->created > INT64_MAX))
           ? "there is no valid revision" : NULL;
}


char *
ngx_etcd_state_member_read(ngx_str_t *data, ngx_etcd_member_t *member,
    ngx_str_t *address)
{
    u_char      *p, flags;
    uint32_t     n;
    ngx_uint_t   i;
    ngx_str_t    route;

    p = data->data;

    if (data->len < NGX_ETCD_STATE_MEMBER_HEAD) {
        return "length";
    }

    for (i = 0; ngx_etcd_state_numbers[i].name != NULL; i++) {
        n = ngx_etcd_state_read(&p, 4);

        if (n < ngx_etcd_state_numbers[i].min
            || n > ngx_etcd_state_numbers[i].max)
        {
            return ngx_etcd_state_numbers[i].name;
        }

        *(uint32_t *) ((u_char *) &member->attr
                       + ngx_etcd_state_numbers[i].offset) = n;
    }

    flags = *p++;

    member->attr.down = (flags & NGX_ETCD_STATE_DOWN) ? 1 : 0;
    member->attr.backup = (flags & NGX_ETCD_STATE_BACKUP) ? 1 : 0;
    member->attr.drain = (flags & NGX_ETCD_STATE_DRAIN) ? 1 : 0;
    member->attr.near = (flags & NGX_ETCD_STATE_NEAR) ? 1 : 0;
    member->attr.ordered = (flags & NGX_ETCD_STATE_ORDERED) ? 1 : 0;

    member->port = ngx_etcd_state_read(&p, 2);
    member->whole = ngx_etcd_state_read(&p, 2);

    address->len = *p++;
    route.len = *p++;
    member->host.len = *p++;

    if (data->len != NGX_ETCD_STATE_MEMBER_HEAD + address->len + route.len
                     + member->host.len)
    {
        return "length";
    }

    address->data = p;
    route.data = p + address->len;
    member->host.data = route.data + route.len;

    if (!ngx_etcd_attribute_is_route(&route)) {
        return "route";
    }

    member->route.len = route.len;
    ngx_memcpy(member->route.data, route.data, route.len);

    if (member->host.len > NGX_ETCD_MEMBER_MAX_HOST
        || (member->host.len == 0) != (member->port == 0)
        || (member->host.len == 0) != (member->whole == 0))
    {
        return "host";
    }

    return NULL;
}
