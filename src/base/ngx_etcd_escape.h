
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Escapes foreign bytes for logs and people: the result cannot start another
 * log line, end the quotes around it, or control a terminal.
 */


#ifndef _NGX_ETCD_ESCAPE_H_INCLUDED_
#define _NGX_ETCD_ESCAPE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* maximum length of an escaped text of "shown" bytes */
#define NGX_ETCD_ESCAPED(shown)  (4 * (shown) + sizeof("...") - 1)


/*
 * Writes at most "shown" bytes of the text, escaped, and "..." if the text is
 * longer.  Control bytes and bytes above 0x7e become "\x0a"; a quote and a
 * backslash are preceded by a backslash.  Returns the end of the output;
 * NGX_ETCD_ESCAPED(shown) bytes are enough.
 */
u_char *ngx_etcd_escape(u_char *p, ngx_str_t *text, size_t shown);

/* Returns 1 if there is a control byte (below 0x20, or 0x7f). */
ngx_uint_t ngx_etcd_escape_has_control(const u_char *data, size_t len);


#endif /* _NGX_ETCD_ESCAPE_H_INCLUDED_ */
