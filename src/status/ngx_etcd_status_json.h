
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The status as JSON: loops over the tables of fields.  Long lists are written
 * in pieces: members, invalid values, holders and waiters of locks, and events.
 */


#ifndef _NGX_ETCD_STATUS_JSON_H_INCLUDED_
#define _NGX_ETCD_STATUS_JSON_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_status.h>


/* the parts of the text, for ngx_etcd_status_create() */
extern const ngx_etcd_status_part_t  ngx_etcd_status_json[];


#endif /* _NGX_ETCD_STATUS_JSON_H_INCLUDED_ */
