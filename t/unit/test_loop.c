
/*
 * Copyright (C) nginx-etcd contributors
 */


#include "test_loop.h"


/* takes the place of libc's for what is compiled into the module */

int
clock_gettime(clockid_t id, struct timespec *ts)
{
    ts->tv_sec = ngx_current_msec / 1000;
    ts->tv_nsec = ngx_current_msec % 1000 * 1000000;

    return 0;
}


void
test_loop_init(ngx_log_t *log)
{
    srandom(1);

    ngx_current_msec = 1000000;

    (void) ngx_event_timer_init(log);

    ngx_queue_init(&ngx_posted_events);
    ngx_queue_init(&ngx_posted_next_events);
}


void
test_loop_run(void)
{
    ngx_cycle_t  *cycle;

    cycle = (ngx_cycle_t *) ngx_cycle;

    while (!ngx_queue_empty(&ngx_posted_events)
           || !ngx_queue_empty(&ngx_posted_next_events))
    {
        ngx_event_move_posted_next(cycle);
        ngx_event_process_posted(cycle, &ngx_posted_events);
    }
}


void
test_loop_pass(ngx_msec_t time)
{
    ngx_msec_t          end;
    ngx_rbtree_node_t  *node;

    end = ngx_current_msec + time;

    test_loop_run();

    while (ngx_event_timer_rbtree.root != ngx_event_timer_rbtree.sentinel) {
        node = ngx_rbtree_min(ngx_event_timer_rbtree.root,
                              ngx_event_timer_rbtree.sentinel);

        if ((ngx_msec_int_t) (node->key - end) > 0) {
            break;
        }

        ngx_current_msec = ngx_max(ngx_current_msec, node->key);

        ngx_event_expire_timers();
        test_loop_run();
    }

    ngx_current_msec = end;
}


ngx_uint_t
test_loop_idle(void)
{
    return ngx_event_timer_rbtree.root == ngx_event_timer_rbtree.sentinel
           && ngx_queue_empty(&ngx_posted_events)
           && ngx_queue_empty(&ngx_posted_next_events);
}
