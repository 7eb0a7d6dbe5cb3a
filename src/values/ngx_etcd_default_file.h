
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The "default_file=" of "etcd_set": a file with a certificate or a private
 * key, which is read with the configuration and the rights of the master.
 */


#ifndef _NGX_ETCD_DEFAULT_FILE_H_INCLUDED_
#define _NGX_ETCD_DEFAULT_FILE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * Reads the file, unless the name is empty, and sets the content to its blocks
 * (ngx_etcd_pem.h).  NGX_ERROR: logged.
 */
ngx_int_t ngx_etcd_default_file_read(ngx_conf_t *cf, ngx_str_t *name,
    ngx_uint_t max_bits, ngx_str_t *content);


#endif /* _NGX_ETCD_DEFAULT_FILE_H_INCLUDED_ */
