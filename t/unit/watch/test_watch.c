
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_etcd_tap.h"


extern ngx_etcd_tap_test_t  test_proof[];
extern ngx_etcd_tap_test_t  test_watch_events[];
extern ngx_etcd_tap_test_t  test_watch_range[];
extern ngx_etcd_tap_test_t  test_watch_request[];
extern ngx_etcd_tap_test_t  test_watch_stream[];


ngx_etcd_tap_test_t  *ngx_etcd_tap_tables[] = {
    test_proof,
    test_watch_events,
    test_watch_range,
    test_watch_request,
    test_watch_stream,
    NULL
};
