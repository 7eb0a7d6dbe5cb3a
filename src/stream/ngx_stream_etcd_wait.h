
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The directive "etcd_wait" in stream.
 */


#ifndef _NGX_STREAM_ETCD_WAIT_H_INCLUDED_
#define _NGX_STREAM_ETCD_WAIT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_etcd.h>


/*
 * Pauses a session before its content handler.
 */

/*
 * Pauses a session before the content handler of its server is called:
 * NGX_DONE or NGX_ERROR.  If the client closes the connection, gone() is
 * called and the session ends.
 */
ngx_int_t ngx_stream_etcd_pause(ngx_stream_session_t *s,
    void (*gone)(void *data), void *data);

/*
 * Resumes a paused session: all conditions of the content handler are checked
 * again.
 */
void ngx_stream_etcd_pause_end(ngx_stream_session_t *s);

/*
 * Ends the session with that status, after a call of gone(), and returns 1, if
 * the session is paused.
 */
ngx_uint_t ngx_stream_etcd_pause_abandon(ngx_stream_session_t *s,
    ngx_uint_t rc);


/*
 * NGX_DECLINED: no need to wait, and with "full" a connection is reserved for
 * the session; NGX_DONE: the session is paused.
 */
ngx_int_t ngx_stream_etcd_wait_handler(ngx_stream_session_t *s);


/* ms that the session has waited in all */
ngx_msec_t ngx_stream_etcd_wait_time(ngx_stream_session_t *s);


#endif /* _NGX_STREAM_ETCD_WAIT_H_INCLUDED_ */
