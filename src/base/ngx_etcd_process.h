
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


/*
 * The cluster of etcd that all clients of one nginx use: words in shared
 * memory, which any process reads and writes without a lock.
 */

#define NGX_ETCD_SHARED_ID_ROWS  32     /* endpoints of another cluster */


/* an endpoint of another cluster, which was logged */

typedef struct {
    volatile uint64_t        url;       /* a hash of it; 0: unused */
    volatile uint64_t        id;        /* of its cluster; 0: of ours */
} ngx_etcd_shared_id_row_t;


typedef struct {
    volatile uint64_t        id;        /* of the cluster; 0: not known yet */
    volatile uint64_t        answered;  /* ngx_etcd_clock() of the last answer
                                           of an endpoint of that cluster */
    volatile uint64_t        epoch;     /* of the configuration whose clients
                                           use and change these words */
    ngx_etcd_shared_id_row_t  rows[NGX_ETCD_SHARED_ID_ROWS];
} ngx_etcd_shared_id_t;


/*
 * Returns 1 if this id is new for the endpoint with that URL.  An id of 0: the
 * endpoint belongs to our cluster; returns 1 if it did not before.
 */
ngx_uint_t ngx_etcd_shared_id_mark(ngx_etcd_shared_id_t *shared,
    ngx_str_t *url, uint64_t id);


#endif /* _NGX_ETCD_PROCESS_H_INCLUDED_ */
