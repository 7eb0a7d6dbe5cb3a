
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Whether the process that left something in shared memory, or a file, is
 * still there.  A pid may be in use again: what must not be taken for another
 * process's carries an epoch or a process slot as well.
 */


#ifndef _NGX_ETCD_PROCESS_H_INCLUDED_
#define _NGX_ETCD_PROCESS_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* Returns 1 if there is no such process; 0 also if it may not be signalled. */

static ngx_inline ngx_uint_t
ngx_etcd_process_gone(ngx_pid_t pid)
{
    return kill(pid, 0) == -1 && ngx_errno == NGX_ESRCH;
}


#endif /* _NGX_ETCD_PROCESS_H_INCLUDED_ */
