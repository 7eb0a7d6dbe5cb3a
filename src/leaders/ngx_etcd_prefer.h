
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The directive "etcd_prefer", common to http and stream.
 */


#ifndef _NGX_ETCD_PREFER_H_INCLUDED_
#define _NGX_ETCD_PREFER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_service.h>


#define NGX_ETCD_PREFER_SPILL  70     /* percent */


typedef struct {
    ngx_etcd_tag_t               tag;           /* points into the text
                                                   "TAG:VALUE" */
    ngx_uint_t                   spill;         /* percent; 0: without the
                                                   directive */
} ngx_etcd_prefer_t;


/* Reads the arguments of the directive; logs errors. */
char *ngx_etcd_prefer(ngx_conf_t *cf, ngx_etcd_prefer_t *prefer);

/*
 * Gives the tag, if any, to the service, and adds it to the hash of what
 * values are decoded by.
 */
void ngx_etcd_prefer_use(ngx_etcd_prefer_t *prefer,
    ngx_etcd_service_conf_t *service, uint32_t *hash);

/* Sets the string to "TAG:VALUE", which the tag points into. */
void ngx_etcd_prefer_text(ngx_etcd_tag_t *tag, ngx_str_t *str);

/* Returns NULL, or why the directive cannot be used with one of the lines. */
char *ngx_etcd_prefer_check(ngx_etcd_prefer_t *prefer,
    ngx_etcd_service_conf_t *service);


#endif /* _NGX_ETCD_PREFER_H_INCLUDED_ */
