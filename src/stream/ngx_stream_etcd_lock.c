
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_stream.h>
#include <ngx_stream_etcd_lock.h>
#include <ngx_stream_etcd_wait.h>
#include <ngx_stream_etcd_upstream.h>
#include <ngx_stream_etcd_set.h>


static ngx_stream_filter_pt  ngx_stream_next_filter;


char *
ngx_stream_etcd_lock(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_stream_etcd_srv_conf_t *escf = conf;

    return ngx_etcd_lock_conf(cf, &escf->locks, ngx_stream_etcd_set_compile);
}


static void
ngx_stream_etcd_lock_over(ngx_etcd_grant_t *grant)
{
    ngx_stream_etcd_pause_end(grant->owner);
}


static void
ngx_stream_etcd_lock_is_lost(ngx_etcd_grant_t *grant)
{
    ngx_connection_t      *c;
    ngx_stream_session_t  *s;

    s = grant->owner;
    c = s->connection;

    /* the session may wait for another lock, or for a member */

    if (!ngx_etcd_grant_report(grant, c->pool, c->log)
        || ngx_stream_etcd_pause_abandon(s, NGX_STREAM_SERVICE_UNAVAILABLE))
    {
        return;
    }

    if (s->upstream != NULL) {
        ngx_stream_etcd_upstream_cut(s);

    } else if (c->data != s) {

        /*
         * "pass" has moved the connection to another server, which sees EOF
         * now
         */

        (void) ngx_shutdown_socket(c->fd, SHUT_RDWR);

    } else {
        ngx_stream_finalize_session(s, NGX_STREAM_SERVICE_UNAVAILABLE);
    }
}


static ngx_etcd_grant_t *
ngx_stream_etcd_lock_take(void *owner, ngx_etcd_lock_conf_t *lock,
    ngx_str_t *key, ngx_uint_t shared)
{
    ngx_stream_session_t *s = owner;

    ngx_etcd_grant_t            *grant;
    ngx_stream_etcd_srv_conf_t  *escf;

    escf = ngx_stream_get_module_srv_conf(s, ngx_stream_etcd_module);

    grant = ngx_etcd_grant_add(s->connection->pool, s, lock, key, shared);
    if (grant == NULL) {
        return NULL;
    }

    grant->on_lost = escf->lock_lost;

    grant->handler = ngx_stream_etcd_lock_over;
    grant->lost = ngx_stream_etcd_lock_is_lost;

    return (ngx_etcd_lock_begin(grant, s->connection->log) == NGX_ERROR)
           ? NULL : grant;
}


static void
ngx_stream_etcd_lock_gone(void *data)
{
    ngx_stream_session_t *s = data;

    ngx_etcd_grant_release(s->connection->pool, s);
}


ngx_int_t
ngx_stream_etcd_lock_handler(ngx_stream_session_t *s)
{
    ngx_int_t                    rc;
    ngx_etcd_grant_owner_t       owner;
    ngx_stream_etcd_srv_conf_t  *escf;

    escf = ngx_stream_get_module_srv_conf(s, ngx_stream_etcd_module);

    owner.owner = s;
    owner.pool = s->connection->pool;
    owner.log = s->connection->log;
    owner.changes = 0;
    owner.value = ngx_stream_etcd_set_text;
    owner.take = ngx_stream_etcd_lock_take;

    rc = ngx_etcd_grant_take(&owner, escf->locks);

    if (rc == NGX_OK) {
        return NGX_DECLINED;
    }

    if (rc == NGX_AGAIN) {
        s->connection->log->action = "waiting for a lock";

        rc = ngx_stream_etcd_pause(s, ngx_stream_etcd_lock_gone, s);

        if (rc == NGX_DONE) {
            return NGX_DONE;
        }

    } else if (rc != NGX_ERROR) {
        rc = (rc == NGX_ABORT) ? NGX_STREAM_BAD_REQUEST
                               : NGX_STREAM_SERVICE_UNAVAILABLE;
    }

    /* a failed session must not keep its other locks */

    ngx_etcd_grant_release(s->connection->pool, s);
    ngx_etcd_grant_forget(s->connection->pool, s);

    return rc;
}


/* Releases the locks here: with TLS the pool may be destroyed much later. */

ngx_int_t
ngx_stream_etcd_lock_log(ngx_stream_session_t *s)
{
    ngx_etcd_grant_release(s->connection->pool, s);

    return NGX_OK;
}


/*
 * Ends a session whose lock is known to be lost before more data is sent: the
 * lost() handler may not have been called yet.
 */

static ngx_int_t
ngx_stream_etcd_lock_filter(ngx_stream_session_t *s, ngx_chain_t *in,
    ngx_uint_t from_upstream)
{
    ngx_connection_t  *c;

    c = s->connection;

    if (ngx_etcd_grant_lost(c->pool, s, c->log) != NULL) {
        return NGX_ERROR;
    }

    return ngx_stream_next_filter(s, in, from_upstream);
}


void
ngx_stream_etcd_lock_add_filter(void)
{
    ngx_stream_next_filter = ngx_stream_top_filter;
    ngx_stream_top_filter = ngx_stream_etcd_lock_filter;
}


static ngx_int_t
ngx_stream_etcd_lock_variable(ngx_stream_session_t *s,
    ngx_stream_variable_value_t *v, uintptr_t data)
{
    ngx_etcd_lock_variable_t  *variable;

    variable = (ngx_etcd_lock_variable_t *) data;

    return variable->get(&variable->name, s->connection->pool, s, v);
}


ngx_int_t
ngx_stream_etcd_lock_add_variables(ngx_conf_t *cf)
{
    ngx_stream_variable_t     *var;
    ngx_etcd_lock_variable_t  *v;

    for (v = ngx_etcd_lock_variables; v->name.len != 0; v++) {
        var = ngx_stream_add_variable(cf, &v->name,
                                      NGX_STREAM_VAR_NOCACHEABLE);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = ngx_stream_etcd_lock_variable;
        var->data = (uintptr_t) v;
    }

    return NGX_OK;
}
