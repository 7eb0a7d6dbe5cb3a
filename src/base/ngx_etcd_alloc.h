
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Arrays that grow.
 */


#ifndef _NGX_ETCD_ALLOC_H_INCLUDED_
#define _NGX_ETCD_ALLOC_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * Returns a block of "size" bytes in place of an old one, or of NULL: the first
 * "used" bytes are those of the old block, which is freed, the others are
 * zeroed.  NULL: no memory, and the old block is still there.
 */

static ngx_inline void *
ngx_etcd_alloc_grow(void *old, size_t used, size_t size, ngx_log_t *log)
{
    u_char  *p;

    p = ngx_alloc(size, log);
    if (p == NULL) {
        return NULL;
    }

    if (old != NULL) {
        ngx_memcpy(p, old, used);
        ngx_free(old);
    }

    ngx_memzero(p + used, size - used);

    return p;
}


#endif /* _NGX_ETCD_ALLOC_H_INCLUDED_ */
