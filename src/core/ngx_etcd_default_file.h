
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
#include <ngx_etcd_set_variable.h>


/* Reads the file, if there is one, into sv->otherwise.  NGX_ERROR: logged. */
ngx_int_t ngx_etcd_default_file_read(ngx_conf_t *cf,
    ngx_etcd_set_variable_t *sv);


#endif /* _NGX_ETCD_DEFAULT_FILE_H_INCLUDED_ */
