
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Bytes that others chose, for people: in a log line they cannot begin another
 * one, nor end the quotes that they stand in, nor move a terminal's cursor.
 */


#ifndef _NGX_ETCD_ESCAPE_H_INCLUDED_
#define _NGX_ETCD_ESCAPE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_ETCD_ESCAPE_SHOWN   256    /* bytes of a text in a log line */
#define NGX_ETCD_ESCAPE_SLOTS   8      /* texts in a log line */

/* what so many bytes need at most */
#define NGX_ETCD_ESCAPED(shown)  (4 * (shown) + sizeof("...") - 1)


/*
 * Writes at most so many bytes of the text, and "..." if there are more.
 * Control bytes and what is no ASCII become "\x0a", a quote and a backslash get
 * a backslash.  Returns the end: NGX_ETCD_ESCAPED(shown) bytes are enough.
 */
u_char *ngx_etcd_escape(u_char *p, ngx_str_t *text, size_t shown);

/*
 * The same as an argument for "%V" in a log line, which is valid until
 * NGX_ETCD_ESCAPE_SLOTS others were asked for.
 */
ngx_str_t *ngx_etcd_shown(ngx_str_t *text);
ngx_str_t *ngx_etcd_shown_bytes(const u_char *data, size_t len);

/* 1 if there is a byte below 0x20, or 0x7f; no variable has such a value */
ngx_uint_t ngx_etcd_has_control(const u_char *data, size_t len);


#endif /* _NGX_ETCD_ESCAPE_H_INCLUDED_ */
