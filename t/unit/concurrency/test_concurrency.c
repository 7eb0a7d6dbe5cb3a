
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "ngx_etcd_tap.h"


extern ngx_etcd_tap_test_t  test_candidate[];
extern ngx_etcd_tap_test_t  test_lease[];
extern ngx_etcd_tap_test_t  test_lock_client[];
extern ngx_etcd_tap_test_t  test_session[];


ngx_etcd_tap_test_t  *ngx_etcd_tap_tables[] = {
    test_candidate,
    test_lease,
    test_lock_client,
    test_session,
    NULL
};
