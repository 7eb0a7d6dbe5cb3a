
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Loops over the objects of an ngx_queue_t, from the first one on.
 */


#ifndef _NGX_ETCD_QUEUE_H_INCLUDED_
#define _NGX_ETCD_QUEUE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * For each object, which has the link in that field.  The body must not remove
 * the object, but may remove others, and add some.
 */
#define ngx_etcd_queue_each(object, queue, type, link)                        \
    for (object = ngx_queue_data(ngx_queue_head(queue), type, link);          \
         &(object)->link != ngx_queue_sentinel(queue);                        \
         object = ngx_queue_data(ngx_queue_next(&(object)->link), type, link))

/*
 * Likewise: the body may remove or free the object, but not the next one, which
 * is a variable of the same type.
 */
#define ngx_etcd_queue_each_safe(object, after, queue, type, link)            \
    for (object = ngx_queue_data(ngx_queue_head(queue), type, link),          \
         after = ngx_queue_data(ngx_queue_next(&(object)->link), type, link); \
         &(object)->link != ngx_queue_sentinel(queue);                        \
         object = after,                                                      \
         after = ngx_queue_data(ngx_queue_next(&(object)->link), type, link))


#endif /* _NGX_ETCD_QUEUE_H_INCLUDED_ */
