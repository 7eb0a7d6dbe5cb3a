
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Finds duplicate names in a JSON object.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_json_scan.h>


/* above this number, sorting is faster than comparing all pairs */

#define NGX_ETCD_JSON_PAIRS  24


static ngx_etcd_json_t *ngx_etcd_json_pair(ngx_etcd_json_t *object);
static ngx_etcd_json_t *ngx_etcd_json_sorted(ngx_etcd_json_t *object,
    ngx_etcd_json_t **members);
static int ngx_libc_cdecl ngx_etcd_json_order(const void *one,
    const void *two);
static ngx_int_t ngx_etcd_json_twice(ngx_etcd_json_reader_t *reader,
    ngx_etcd_json_t *member);


ngx_int_t
ngx_etcd_json_names(ngx_etcd_json_reader_t *reader, ngx_etcd_json_t *object)
{
    ngx_etcd_json_t  *member, **members;

    if (object->text.len <= NGX_ETCD_JSON_PAIRS) {
        member = ngx_etcd_json_pair(object);

    } else {
        members = ngx_alloc(object->text.len * sizeof(ngx_etcd_json_t *),
                            ngx_cycle->log);
        if (members == NULL) {
            return ngx_etcd_json_fail(reader, reader->p, "no memory");
        }

        member = ngx_etcd_json_sorted(object, members);

        ngx_free(members);
    }

    return (member == NULL) ? NGX_OK : ngx_etcd_json_twice(reader, member);
}


/* Returns a member with the name of an earlier one; NULL: there is none. */

static ngx_etcd_json_t *
ngx_etcd_json_pair(ngx_etcd_json_t *object)
{
    ngx_etcd_json_t  *one, *two, *last;

    last = ngx_etcd_json_next(object);

    for (two = ngx_etcd_json_first(object);
         two < last;
         two = ngx_etcd_json_next(two))
    {
        for (one = ngx_etcd_json_first(object);
             one < two;
             one = ngx_etcd_json_next(one))
        {
            if (one->name.len == two->name.len
                && ngx_memcmp(one->name.data, two->name.data, one->name.len)
                   == 0)
            {
                return two;
            }
        }
    }

    return NULL;
}


static ngx_etcd_json_t *
ngx_etcd_json_sorted(ngx_etcd_json_t *object, ngx_etcd_json_t **members)
{
    ngx_uint_t        i, n;
    ngx_etcd_json_t  *member, *one, *two;

    n = object->text.len;
    member = ngx_etcd_json_first(object);

    for (i = 0; i < n; i++) {
        members[i] = member;
        member = ngx_etcd_json_next(member);
    }

    ngx_qsort(members, n, sizeof(ngx_etcd_json_t *), ngx_etcd_json_order);

    for (i = 1; i < n; i++) {
        one = members[i - 1];
        two = members[i];

        if (one->name.len == two->name.len
            && ngx_memcmp(one->name.data, two->name.data, one->name.len) == 0)
        {
            return ngx_max(one, two);
        }
    }

    return NULL;
}


static int ngx_libc_cdecl
ngx_etcd_json_order(const void *one, const void *two)
{
    ngx_str_t  *a, *b;

    a = &(*(ngx_etcd_json_t **) one)->name;
    b = &(*(ngx_etcd_json_t **) two)->name;

    if (a->len != b->len) {
        return (a->len < b->len) ? -1 : 1;
    }

    return ngx_memcmp(a->data, b->data, a->len);
}


/* The error is at the opening quote; a decoded name is not in the text. */

static ngx_int_t
ngx_etcd_json_twice(ngx_etcd_json_reader_t *reader, ngx_etcd_json_t *member)
{
    u_char  *place;

    place = member->name.data - 1;

    if (place < reader->start || place >= reader->last) {
        place = reader->p;
    }

    return ngx_etcd_json_fail(reader, place, "duplicate object key");
}
