
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Reads the text of a state (ngx_etcd_state.h) into sets and value maps that
 * are empty.
 */


#ifndef _NGX_ETCD_RESTORE_STATE_H_INCLUDED_
#define _NGX_ETCD_RESTORE_STATE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_restore.h>


/*
 * Called by the master, for a zone that no other process knows yet:
 *
 *     NGX_OK        the sets and value maps have the members, values and
 *                   revisions of the text; data of others is dropped,
 *     NGX_ERROR     nothing was changed; restore->reason is set.
 */
ngx_int_t ngx_etcd_restore_state_text(ngx_etcd_restore_t *restore,
    ngx_str_t *text);


#endif /* _NGX_ETCD_RESTORE_STATE_H_INCLUDED_ */
