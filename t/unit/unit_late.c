
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A worker that starts late, as a directive:
 *
 *     etcd_late FILE;
 *
 * A worker does nothing while this file exists, but for a minute at the most.
 * The module must be loaded before the ones that are to start late.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "test_module.h"


#define NGX_ETCD_UNIT_LATE  60000         /* ms */


static char *ngx_etcd_unit_late(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
static ngx_int_t ngx_etcd_unit_late_start(ngx_cycle_t *cycle);


/* of the last configuration that was read */

static ngx_str_t  ngx_etcd_unit_late_file;


static ngx_command_t  ngx_etcd_unit_late_commands[] = {

    { ngx_string("etcd_late"),
      NGX_MAIN_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_etcd_unit_late,
      0,
      0,
      NULL },

      ngx_null_command
};


test_module_start(ngx_etcd_unit_late_module, ngx_etcd_unit_late_commands,
                  ngx_etcd_unit_late_start);


static char *
ngx_etcd_unit_late(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t  *value;

    value = cf->args->elts;
    ngx_etcd_unit_late_file = value[1];

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_etcd_unit_late_start(ngx_cycle_t *cycle)
{
    ngx_msec_t  waited;

    for (waited = 0; waited < NGX_ETCD_UNIT_LATE; waited += 10) {

        if (access((char *) ngx_etcd_unit_late_file.data, F_OK) == -1) {
            break;
        }

        ngx_msleep(10);
    }

    return NGX_OK;
}
