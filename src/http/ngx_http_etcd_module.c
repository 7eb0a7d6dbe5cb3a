
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>
#include <ngx_http_etcd_module.h>


static void *ngx_http_etcd_create_srv_conf(ngx_conf_t *cf);


static ngx_command_t  ngx_http_etcd_commands[] = {

    { ngx_string("etcd_members"),
      NGX_HTTP_UPS_CONF|NGX_CONF_1MORE,
      ngx_http_etcd_members,
      NGX_HTTP_SRV_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("etcd_balance"),
      NGX_HTTP_UPS_CONF|NGX_CONF_TAKE1,
      ngx_http_etcd_balance,
      NGX_HTTP_SRV_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("etcd_allow"),
      NGX_HTTP_UPS_CONF|NGX_CONF_1MORE,
      ngx_http_etcd_allow,
      NGX_HTTP_SRV_CONF_OFFSET,
      0,
      NULL },

    { ngx_string("etcd_status"),
      NGX_HTTP_LOC_CONF|NGX_CONF_NOARGS|NGX_CONF_TAKE1,
      ngx_http_etcd_status,
      0,
      0,
      NULL },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_etcd_module_ctx = {
    ngx_http_etcd_add_variables,           /* preconfiguration */
    ngx_http_etcd_upstream_check,          /* postconfiguration */

    NULL,                                  /* create main configuration */
    NULL,                                  /* init main configuration */

    ngx_http_etcd_create_srv_conf,         /* create server configuration */
    NULL,                                  /* merge server configuration */

    NULL,                                  /* create location configuration */
    NULL                                   /* merge location configuration */
};


ngx_module_t  ngx_http_etcd_module = {
    NGX_MODULE_V1,
    &ngx_http_etcd_module_ctx,             /* module context */
    ngx_http_etcd_commands,                /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    NULL,                                  /* init module */
    NULL,                                  /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    NULL,                                  /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};


static void *
ngx_http_etcd_create_srv_conf(ngx_conf_t *cf)
{
    return ngx_pcalloc(cf->pool, sizeof(ngx_http_etcd_srv_conf_t));
}
