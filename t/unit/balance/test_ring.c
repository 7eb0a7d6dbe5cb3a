
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_ring.h>
#include "ngx_etcd_tap.h"


#define TEST_RING_POINTS  2000
#define TEST_RING_PEERS   12


static int
test_ring_compare(const void *one, const void *two)
{
    uint32_t  a, b;

    a = ((ngx_etcd_point_t *) one)->hash;
    b = ((ngx_etcd_point_t *) two)->hash;

    return (a < b) ? -1 : (a > b);
}


/* Returns 1 if the ring has these hashes, in their order and all around. */

static ngx_uint_t
test_ring_is(ngx_etcd_ring_t *ring, ngx_etcd_point_t *points, ngx_uint_t n)
{
    ngx_uint_t              i;
    ngx_etcd_point_t       *point;
    ngx_etcd_ring_place_t   place;

    qsort(points, n, sizeof(ngx_etcd_point_t), test_ring_compare);

    if (ring->npoints != n) {
        return 0;
    }

    point = ngx_etcd_ring_find(ring, 0, &place);

    for (i = 0; i < 2 * n; i++) {
        if (point->hash != points[i % n].hash) {
            return 0;
        }

        point = ngx_etcd_ring_next(&place);
    }

    return (n == 0) ? point == NULL : 1;
}


static void
test_ring_init(ngx_etcd_ring_t *ring, ngx_log_t *log)
{
    ngx_memzero(ring, sizeof(ngx_etcd_ring_t));

    ring->log = log;
}


static void
test_ring_vnodes_init(ngx_etcd_vnodes_t *vnodes, ngx_etcd_ring_t *ring)
{
    ngx_memzero(vnodes, sizeof(ngx_etcd_vnodes_t));

    vnodes->ring = ring;

    ngx_queue_init(&vnodes->settled);
    ngx_queue_init(&vnodes->pending);
}


/* Random changes beside an array; some hashes are those of several peers. */

static void
test_ring_random(ngx_pool_t *pool)
{
    uint32_t                 hash;
    ngx_uint_t               i, k, n;
    ngx_etcd_ring_t          ring;
    ngx_etcd_point_t        *point;
    ngx_etcd_ring_place_t    place;

    static ngx_etcd_point_t  points[TEST_RING_POINTS];

    srandom(1);
    test_alloc_pause();
    test_ring_init(&ring, pool->log);

    n = 0;

    ngx_etcd_ring_delete(&ring, 5, 5);
    tap_check(ngx_etcd_ring_find(&ring, 5, &place) == NULL);

    for (i = 0; i < 6 * TEST_RING_POINTS; i++) {

        /* the ring grows, and shrinks to nothing */

        if (n < TEST_RING_POINTS
            && (random() % 8 > (i < 3 * TEST_RING_POINTS ? 2 : 5)))
        {
            hash = (random() % 3) ? (uint32_t) random() * 2 + 1
                                  : (random() % 9) * 0x1fffffff;
            points[n].hash = hash;
            points[n].index = random() % 3;
            tap_check(ngx_etcd_ring_insert(&ring, hash, points[n].index)
                      == NGX_OK);
            n++;

        } else if (n != 0) {
            k = random() % n;
            ngx_etcd_ring_delete(&ring, points[k].hash, points[k].index);
            points[k] = points[--n];
        }

        if (i % 100 == 0) {
            tap_check(test_ring_is(&ring, points, n));
        }

        if (n == 0) {
            continue;
        }

        /* the first one whose hash is not less */

        hash = random() * 2 + 1;
        point = ngx_etcd_ring_find(&ring, hash, &place);

        for (k = 0; k < n && i % 50 == 0; k++) {
            tap_check(points[k].hash < hash
                      || (point->hash >= hash
                          && points[k].hash >= point->hash));
        }
    }

    ngx_etcd_ring_delete(&ring, 4711, 1);
    tap_check(ring.npoints == n);

    while (n != 0) {
        n--;
        ngx_etcd_ring_delete(&ring, points[n].hash, points[n].index + 7);
        tap_check(ring.npoints == n + 1);
        ngx_etcd_ring_delete(&ring, points[n].hash, points[n].index);
    }

    tap_check(ring.npoints == 0
              && ngx_etcd_ring_find(&ring, 5, &place) == NULL);

    ngx_etcd_ring_done(&ring);
    test_alloc_resume();
}


/* An insertion without memory changes nothing. */

static void
test_ring_memory(ngx_pool_t *pool)
{
    ngx_uint_t        i, n;
    ngx_etcd_ring_t   ring;

    static ngx_etcd_point_t  points[TEST_RING_POINTS];

    test_ring_init(&ring, pool->log);
    n = 0;

    for (i = 0; i < TEST_RING_POINTS; i++) {
        if (ngx_etcd_ring_insert(&ring, i * 2654435761, 0) == NGX_OK) {
            points[n++].hash = i * 2654435761;
        }
    }

    i = (n >= TEST_RING_POINTS - 1) && test_ring_is(&ring, points, n);

    ngx_etcd_ring_done(&ring);

    tap_check(i);
}


static ngx_etcd_peer_t  test_ring_peers[TEST_RING_PEERS];


static void
test_ring_peers_init(void)
{
    ngx_uint_t   i;

    static u_char  names[TEST_RING_PEERS][20];

    ngx_memzero(test_ring_peers, sizeof(test_ring_peers));

    for (i = 0; i < TEST_RING_PEERS; i++) {
        test_ring_peers[i].index = i;
        test_ring_peers[i].attr.weight = 1 + i % 4;
        test_ring_peers[i].name.data = names[i];
        test_ring_peers[i].name.len = ngx_sprintf(names[i], "10.0.0.%ui:80", i)
                                      - names[i];
    }
}


/* The points of nginx's own "hash ... consistent" of a server. */

static void
test_ring_points(ngx_pool_t *pool)
{
    u_char                   bytes[4];
    uint32_t                 base, hash;
    ngx_uint_t               i, k;
    ngx_etcd_ring_t          ring;
    ngx_etcd_vnodes_t        vnodes;

    static ngx_etcd_point_t  points[2 * NGX_ETCD_VNODES_UNIT];

    static struct {
        char    *name;
        char    *hashed;
        size_t   len;
    } cases[] = {
        { "10.0.0.1:80", "10.0.0.1\0" "80", 11 },
        { "[::1]:8080", "[::1]\0" "8080", 10 },
        { "unix:/run/a.sock", "/run/a.sock\0", 12 },
        { "host", "host\0", 5 }
    };

    for (k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        test_ring_peers_init();
        test_ring_peers[1].name = *tap_string(pool, cases[k].name);

        test_ring_init(&ring, pool->log);
        test_ring_vnodes_init(&vnodes, &ring);

        if (ngx_etcd_vnodes_reserve(&vnodes) == NGX_OK) {
            ngx_etcd_vnodes_add(&vnodes, &test_ring_peers[1]);

            /* an attempt without memory is made again */

            if (ngx_etcd_vnodes_run(&vnodes, 0) != NGX_OK) {
                tap_check(test_alloc_failed());
                tap_check(ngx_etcd_vnodes_run(&vnodes, 0) == NGX_OK);
            }

            ngx_crc32_init(base);
            ngx_crc32_update(&base, (u_char *) cases[k].hashed, cases[k].len);
            hash = 0;

            for (i = 0; i < 2 * NGX_ETCD_VNODES_UNIT; i++) {
                bytes[0] = (u_char) hash;
                bytes[1] = (u_char) (hash >> 8);
                bytes[2] = (u_char) (hash >> 16);
                bytes[3] = (u_char) (hash >> 24);
                hash = base;
                ngx_crc32_update(&hash, bytes, 4);
                ngx_crc32_final(hash);
                points[i].hash = hash;
            }

            tap_check(test_ring_is(&ring, points, 2 * NGX_ETCD_VNODES_UNIT));
        }

        ngx_etcd_vnodes_done(&vnodes);
        ngx_etcd_ring_done(&ring);
    }
}


/* The ring of members is the same, whatever its history is. */

static void
test_ring_history(ngx_pool_t *pool)
{
    ngx_uint_t               i, k, n;
    ngx_etcd_peer_t         *peer;
    ngx_etcd_ring_t          rings[2];
    ngx_etcd_vnodes_t        vnodes[2];
    ngx_etcd_point_t        *point;
    ngx_etcd_ring_place_t    place;

    static ngx_etcd_point_t  points[TEST_RING_PEERS * 4 * NGX_ETCD_VNODES_UNIT];

    srandom(1);
    test_alloc_pause();
    test_ring_peers_init();

    for (i = 0; i < 2; i++) {
        test_ring_init(&rings[i], pool->log);
        test_ring_vnodes_init(&vnodes[i], &rings[i]);
    }

    for (i = 0; i < 300; i++) {
        peer = &test_ring_peers[random() % TEST_RING_PEERS];
        (void) ngx_etcd_vnodes_reserve(&vnodes[0]);

        if (peer->share == NULL) {
            ngx_etcd_vnodes_add(&vnodes[0], peer);
        } else {
            ngx_etcd_vnodes_remove(&vnodes[0], peer);
        }

        if (random() % 3) {

            /* a piece of the work: the time is over */

            (void) ngx_etcd_vnodes_run(&vnodes[0], 1);
        }
    }

    tap_check(ngx_etcd_vnodes_run(&vnodes[0], 0) == NGX_OK);

    n = 0;

    for (i = 0; i < TEST_RING_PEERS; i++) {
        if (test_ring_peers[i].share != NULL) {
            (void) ngx_etcd_vnodes_reserve(&vnodes[1]);
            ngx_etcd_vnodes_add(&vnodes[1], &test_ring_peers[i]);
            n += test_ring_peers[i].attr.weight * NGX_ETCD_VNODES_UNIT;
        }
    }

    tap_check(ngx_etcd_vnodes_run(&vnodes[1], 0) == NGX_OK);
    tap_check(n != 0 && rings[0].npoints == n);

    point = ngx_etcd_ring_find(&rings[0], 0, &place);

    for (k = 0; k < n; k++) {
        points[k] = *point;
        point = ngx_etcd_ring_next(&place);
    }

    tap_check(test_ring_is(&rings[1], points, n));

    for (i = 0; i < 2; i++) {
        ngx_etcd_vnodes_done(&vnodes[i]);
        ngx_etcd_ring_done(&rings[i]);
    }

    test_alloc_resume();
}


static void
test_ring_scales(ngx_pool_t *pool)
{
    ngx_uint_t  scale, points, former;

    tap_check(ngx_etcd_vnodes_points(1, 0) == 160);
    tap_check(ngx_etcd_vnodes_points(100, 1) == 15000);
    tap_check(ngx_etcd_vnodes_points(100, 8) == 8000);
    tap_check(ngx_etcd_vnodes_points(100, 9) == 7500);
    tap_check(ngx_etcd_vnodes_points(1, 100) == 1);

    former = ngx_etcd_vnodes_points(65535, 0);

    for (scale = 1; scale < 80; scale++) {
        points = ngx_etcd_vnodes_points(65535, scale);
        tap_check(points < former && points >= former / 8 * 7);
        former = points;
    }
}


ngx_etcd_tap_test_t  test_ring[] = {
    { "ring: random changes", test_ring_random },
    { "ring: memory", test_ring_memory },
    { "vnodes: points as nginx has them", test_ring_points },
    { "vnodes: any history", test_ring_history },
    { "vnodes: factors", test_ring_scales },
    { NULL, NULL }
};
