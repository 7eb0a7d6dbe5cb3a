
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_message.h>
#include <ngx_etcd_proto.pb-c.h>
#include "ngx_etcd_tap.h"


#define TEST_MESSAGE_FUZZ  3000


static Etcd__RangeResponse *test_message_range(ngx_pool_t *pool, char *data,
    size_t len, ngx_uint_t *exceeded);


/* Unpacks a RangeResponse from memory that ends where the message ends. */

static Etcd__RangeResponse *
test_message_range(ngx_pool_t *pool, char *data, size_t len,
    ngx_uint_t *exceeded)
{
    ngx_str_t  *bytes;

    bytes = tap_bytes(pool, data, len);

    return (Etcd__RangeResponse *)
           ngx_etcd_message_unpack(&etcd__range_response__descriptor, pool,
                                   bytes->data, bytes->len, exceeded);
}


static size_t
test_message_pack(char *buf, size_t size)
{
    Etcd__KeyValue        kv, *kvs[1];
    Etcd__RangeResponse   range;
    Etcd__ResponseHeader  header;

    etcd__key_value__init(&kv);
    etcd__range_response__init(&range);
    etcd__response_header__init(&header);

    kv.key.data = (u_char *) "/k";
    kv.key.len = 2;
    kv.value.data = (u_char *) "value";
    kv.value.len = 5;
    kv.mod_revision = 300;
    kvs[0] = &kv;

    header.cluster_id = 0xffffffffffffffff;
    header.revision = 1000000;

    range.header = &header;
    range.kvs = kvs;
    range.n_kvs = 1;
    range.count = 7;

    if (etcd__range_response__get_packed_size(&range) > size) {
        return 0;
    }

    return etcd__range_response__pack(&range, (u_char *) buf);
}


static void
test_message_unpack(ngx_pool_t *pool)
{
    char                  buf[128];
    size_t                len;
    ngx_uint_t            exceeded;
    Etcd__RangeResponse  *range;

    len = test_message_pack(buf, sizeof(buf));
    tap_check(len != 0);

    exceeded = 1;
    range = test_message_range(pool, buf, len, &exceeded);

    tap_check(exceeded == 0);
    tap_expect(range != NULL);

    tap_check(range->count == 7);
    tap_check(range->header->cluster_id == 0xffffffffffffffff);
    tap_check(range->header->revision == 1000000);
    tap_check(range->n_kvs == 1);
    tap_check(range->kvs[0]->mod_revision == 300);
    tap_check(range->kvs[0]->value.len == 5);

    range = test_message_range(pool, "", 0, &exceeded);

    tap_expect(range != NULL);
    tap_check(range->n_kvs == 0 && range->header == NULL);
}


/* Lists of things, other messages, and answers of proxies have no id. */

static void
test_message_cluster_id(ngx_pool_t *pool)
{
    Etcd__KeyValue        kv;
    Etcd__TxnRequest      txn;
    Etcd__WatchResponse   watch;
    Etcd__RangeResponse   range;
    Etcd__ResponseHeader  header;

    etcd__key_value__init(&kv);
    etcd__txn_request__init(&txn);
    etcd__watch_response__init(&watch);
    etcd__range_response__init(&range);
    etcd__response_header__init(&header);

    tap_check(ngx_etcd_message_cluster_id(&watch.base) == 0);

    watch.header = &header;
    range.header = &header;
    tap_check(ngx_etcd_message_cluster_id(&watch.base) == 0);

    header.cluster_id = 0xffffffffffffffff;
    tap_check(ngx_etcd_message_cluster_id(&watch.base) == 0xffffffffffffffff);
    tap_check(ngx_etcd_message_cluster_id(&range.base) == 0xffffffffffffffff);

    tap_check(ngx_etcd_message_cluster_id(&kv.base) == 0);
    tap_check(ngx_etcd_message_cluster_id(&txn.base) == 0);
    tap_check(ngx_etcd_message_cluster_id(&header.base) == 0);
}


/*
 * A message that ends anywhere is one with fewer fields, or none.  Fields end
 * at two places in there: the header, and the key.
 */

static void
test_message_truncated(ngx_pool_t *pool)
{
    char        buf[128];
    size_t      len, i;
    ngx_uint_t  exceeded, n;

    len = test_message_pack(buf, sizeof(buf));
    n = 0;

    for (i = 0; i < len; i++) {
        n += test_message_range(pool, buf, i, &exceeded) != NULL;
        tap_check(exceeded == 0);
    }

    tap_expect(n == 3);
}


/* Each is a field 15, which a RangeResponse does not have, or a broken one. */

static void
test_message_wire(ngx_pool_t *pool)
{
    ngx_uint_t            i, exceeded;
    Etcd__RangeResponse  *range;

    static struct {
        char        *name;
        char        *data;
        size_t       len;
        ngx_uint_t   valid;
    } cases[] = {

#define test_wire(name, bytes, valid)                                         \
        { name, bytes, sizeof(bytes) - 1, valid }

        test_wire("varint", "\x78\x01", 1),
        test_wire("ten bytes",
                  "\x78\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 1),
        test_wire("eleven bytes",
                  "\x78\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 0),
        test_wire("no varint", "\x78", 0),
        test_wire("half a varint", "\x78\x80", 0),
        test_wire("64 bits", "\x79" "12345678", 1),
        test_wire("too few for 64", "\x79" "1234567", 0),
        test_wire("32 bits", "\x7d" "1234", 1),
        test_wire("too few for 32", "\x7d" "123", 0),
        test_wire("bytes", "\x7a\x02" "ab", 1),
        test_wire("no bytes", "\x7a\x00", 1),
        test_wire("fewer bytes", "\x7a\x03" "ab", 0),
        test_wire("2^31 bytes", "\x7a\x80\x80\x80\x80\x08" "ab", 0),
        test_wire("2^64 - 1 bytes",
                  "\x7a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" "ab", 0),
        test_wire("begin of a group", "\x7b", 0),
        test_wire("end of a group", "\x7c", 0),
        test_wire("type 6", "\x7e\x00", 0),
        test_wire("type 7", "\x7f\x00", 0),
        test_wire("tag of ten bytes",
                  "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 0),
        test_wire("field 0", "\x00\x00", 0),
        test_wire("header as a number", "\x08\x01", 0),
        test_wire("broken header", "\x0a\x02\x0a\x7f", 0),
        test_wire("broken key", "\x12\x01\x0f", 0),
        test_wire("count twice", "\x20\x01\x20\x02", 1),
        test_wire("header twice", "\x0a\x02\x18\x01\x0a\x02\x18\x02", 1),
        { NULL, NULL, 0, 0 }
    };

#undef test_wire

    for (i = 0; cases[i].name != NULL; i++) {
        range = test_message_range(pool, cases[i].data, cases[i].len,
                                   &exceeded);

        if ((range != NULL) != cases[i].valid && !test_alloc_failed()) {
            ngx_etcd_tap_fail(cases[i].name, __FILE__, __LINE__);
            return;
        }

        tap_check(exceeded == 0);
    }
}


/* So many keys, of some 140 bytes of memory each. */

static ngx_uint_t
test_message_keys(ngx_pool_t *pool, char *key, size_t len, size_t n,
    ngx_uint_t *exceeded)
{
    char                 *data;
    size_t                i;
    Etcd__RangeResponse  *range;

    data = malloc(len * n);

    if (data == NULL) {
        abort();
    }

    for (i = 0; i < n; i++) {
        ngx_memcpy(data + len * i, key, len);
    }

    test_alloc_pause();
    range = test_message_range(pool, data, len * n, exceeded);
    test_alloc_resume();

    free(data);

    return range != NULL && range->n_kvs == n;
}


static void
test_message_limits(ngx_pool_t *pool)
{
    ngx_uint_t  exceeded;

    /* keys: as many as a page of a list has, and more */

    tap_check(test_message_keys(pool, "\x12\3\x0a\1k", 5, 8192, &exceeded));
    tap_check(!exceeded);

    tap_check(test_message_keys(pool, "\x12\3\x0a\1k", 5, 25000, &exceeded));
    tap_check(!exceeded);

    /* memory: for each byte, and all of it */

    tap_check(test_message_keys(pool, "\x12", 2, 100, &exceeded));
    tap_check(!exceeded);

    tap_check(!test_message_keys(pool, "\x12", 2, 8192, &exceeded));
    tap_check(exceeded);

    tap_check(!test_message_keys(pool, "\x12\3\x0a\1k", 5, 50000, &exceeded));
    tap_check(exceeded);

    /* fields */

    tap_check(!test_message_keys(pool, "\x18\1", 2, NGX_ETCD_MESSAGE_PARTS,
                                 &exceeded));
    tap_check(exceeded);
}


/* Fields of messages inside of a message count, too. */

static ngx_uint_t
test_message_header(ngx_pool_t *pool, size_t n, ngx_uint_t *exceeded)
{
    char                 *data, *p;
    size_t                i, len;
    Etcd__RangeResponse  *range;

    len = 2 * n;
    data = malloc(4 + len);

    if (data == NULL) {
        abort();
    }

    p = data;

    *p++ = 0x0a;
    *p++ = (char) (0x80 | (len & 0x7f));
    *p++ = (char) (0x80 | ((len >> 7) & 0x7f));
    *p++ = (char) (len >> 14);

    for (i = 0; i < n; i++) {
        *p++ = 0x18;
        *p++ = 1;
    }

    range = test_message_range(pool, data, p - data, exceeded);

    free(data);

    return range != NULL;
}


static void
test_message_parts(ngx_pool_t *pool)
{
    ngx_uint_t  exceeded;

    tap_expect(test_message_header(pool, NGX_ETCD_MESSAGE_PARTS - 2,
                                   &exceeded));
    tap_check(!exceeded);

    tap_check(!test_message_header(pool, NGX_ETCD_MESSAGE_PARTS - 1,
                                   &exceeded));
    tap_check(exceeded);
}


/* Random changes of a message: nothing is read that is not there. */

static void
test_message_random(ngx_pool_t *pool)
{
    char         buf[128], changed[128];
    size_t       len, i, n;
    ngx_uint_t   exceeded;
    ngx_pool_t  *own;

    test_alloc_pause();
    srandom(1);

    len = test_message_pack(buf, sizeof(buf));

    for (i = 0; i < TEST_MESSAGE_FUZZ; i++) {
        own = ngx_create_pool(1024, pool->log);

        ngx_memcpy(changed, buf, len);

        for (n = random() % 4 + 1; n > 0; n--) {
            changed[random() % len] = (char) random();
        }

        (void) test_message_range(own, changed, len - random() % 3, &exceeded);

        ngx_destroy_pool(own);
    }

    test_alloc_resume();
}


ngx_etcd_tap_test_t  test_message[] = {
    { "message: fields", test_message_unpack },
    { "message: a cluster id", test_message_cluster_id },
    { "message: truncated", test_message_truncated },
    { "message: the wire format", test_message_wire },
    { "message: limits", test_message_limits },
    { "message: nested fields", test_message_parts },
    { "message: random changes", test_message_random },
    { NULL, NULL }
};
