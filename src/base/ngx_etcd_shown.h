
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Foreign bytes as arguments of a log line, escaped (ngx_etcd_escape.h).
 */


#ifndef _NGX_ETCD_SHOWN_H_INCLUDED_
#define _NGX_ETCD_SHOWN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_ETCD_SHOWN_LEN    256      /* bytes of one text */
#define NGX_ETCD_SHOWN_SLOTS  8        /* texts in one log line */


/*
 * Returns the escaped text as an argument for "%V" in a log line.  The result
 * is valid until NGX_ETCD_SHOWN_SLOTS more texts have been escaped.
 */
ngx_str_t *ngx_etcd_shown(ngx_str_t *text);
ngx_str_t *ngx_etcd_shown_bytes(const u_char *data, size_t len);


#endif /* _NGX_ETCD_SHOWN_H_INCLUDED_ */
