
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_event.h>
#include "ngx_etcd_tap.h"


typedef struct {
    ngx_etcd_waiter_t   waiter;
    ngx_queue_t        *queue;
    ngx_etcd_waiter_t  *forgets;
    ngx_uint_t          again;
    ngx_uint_t          called;
} test_waiter_t;


static void
test_waiter_handler(void *data)
{
    test_waiter_t *test = data;

    test->called++;

    if (test->forgets != NULL) {
        ngx_etcd_waiter_forget(test->forgets);
    }

    if (test->again) {
        ngx_etcd_waiter_wait(&test->waiter, test->queue);
    }
}


static void
test_waiter_init(test_waiter_t *test, ngx_queue_t *queue)
{
    ngx_uint_t  i;

    ngx_queue_init(queue);
    ngx_memzero(test, 3 * sizeof(test_waiter_t));

    for (i = 0; i < 3; i++) {
        test[i].waiter.handler = test_waiter_handler;
        test[i].waiter.data = &test[i];
        test[i].queue = queue;
        ngx_etcd_waiter_wait(&test[i].waiter, queue);
    }
}


static void
test_waiter_wake(ngx_pool_t *pool)
{
    ngx_queue_t    queue;
    test_waiter_t  test[3];

    test_waiter_init(test, &queue);

    /* A waiter waits once; one that waits again waits for the next time. */

    ngx_etcd_waiter_wait(&test[0].waiter, &queue);
    test[1].again = 1;

    ngx_etcd_waiter_wake_all(&queue);
    tap_check(test[0].called == 1 && test[1].called == 1
              && test[2].called == 1);

    ngx_etcd_waiter_wake_all(&queue);
    tap_check(test[0].called == 1 && test[1].called == 2
              && test[2].called == 1);
}


static void
test_waiter_forget(ngx_pool_t *pool)
{
    ngx_queue_t    queue;
    test_waiter_t  test[3];

    test_waiter_init(test, &queue);

    /* by another one that is called before it */

    test[0].forgets = &test[2].waiter;
    ngx_etcd_waiter_forget(&test[1].waiter);
    ngx_etcd_waiter_forget(&test[1].waiter);
    ngx_etcd_waiter_wake_all(&queue);

    tap_check(test[0].called == 1 && test[1].called == 0
              && test[2].called == 0);
    tap_check(ngx_queue_empty(&queue));

    test_waiter_init(test, &queue);
    ngx_etcd_waiter_drop_all(&queue);
    ngx_etcd_waiter_wake_all(&queue);
    tap_check(test[0].called == 0 && ngx_queue_empty(&queue));

    /* a dropped one may wait again */

    ngx_etcd_waiter_wait(&test[0].waiter, &queue);
    ngx_etcd_waiter_wake_all(&queue);
    tap_check(test[0].called == 1);
}


ngx_etcd_tap_test_t  test_waiter[] = {
    { "waiters: woken", test_waiter_wake },
    { "waiters: forgotten", test_waiter_forget },
    { NULL, NULL }
};
