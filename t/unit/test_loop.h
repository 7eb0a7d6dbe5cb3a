
/*
 * Copyright (C) nginx-etcd contributors
 *
 * nginx's timers and posted events on a clock of the test, without an event
 * loop.
 */


#ifndef _TEST_LOOP_H_INCLUDED_
#define _TEST_LOOP_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>


/*
 * Drops all timers and posted events, and sets ngx_current_msec, which
 * ngx_etcd_clock() follows; random numbers are the same each time.
 */
void test_loop_init(ngx_log_t *log);

/* Handles posted events until there are none. */
void test_loop_run(void);

/* So many milliseconds pass, with a timer at its time, one after another. */
void test_loop_pass(ngx_msec_t time);

/* Returns 1 if there are no timers and posted events. */
ngx_uint_t test_loop_idle(void);


#endif /* _TEST_LOOP_H_INCLUDED_ */
