
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Host names and their addresses.  A name is resolved when it is first used,
 * once for all its users, and again when the answer has expired.  The
 * functions never block.
 *
 * A name is in one of three states:
 *
 *     WAITING   NGX_ETCD_RESOLVER_MAX_ASKING other names are ASKING
 *     ASKING    until nginx's resolver has answered
 *     RESTING   until its timer expires, then ASKING or WAITING
 *
 * A failed query keeps the last answer.
 */


#ifndef _NGX_ETCD_RESOLVER_H_INCLUDED_
#define _NGX_ETCD_RESOLVER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_lookup.h>


#define NGX_ETCD_RESOLVER_ADDRESSES  64      /* of a name: the lowest ones */
#define NGX_ETCD_RESOLVER_MAX_ASKING 64      /* concurrent queries */

/*
 * Milliseconds.  A name is queried again after its TTL, but not before AGAIN;
 * after a failure, RETRY is doubled up to MAX_RETRY.
 */

#define NGX_ETCD_RESOLVER_AGAIN      1000
#define NGX_ETCD_RESOLVER_RETRY      1000
#define NGX_ETCD_RESOLVER_MAX_RETRY  10000


typedef struct ngx_etcd_resolver_s       ngx_etcd_resolver_t;
typedef struct ngx_etcd_resolver_name_s  ngx_etcd_resolver_name_t;
typedef struct ngx_etcd_resolver_use_s   ngx_etcd_resolver_use_t;


typedef enum {
    NGX_ETCD_RESOLVER_WAITING = 0,
    NGX_ETCD_RESOLVER_ASKING,
    NGX_ETCD_RESOLVER_RESTING
} ngx_etcd_resolver_state_e;


/* the port and the bytes after socklen are 0 */

typedef struct {
    ngx_sockaddr_t                  sockaddr;
    socklen_t                       socklen;
} ngx_etcd_resolver_address_t;


/* Sorted, without duplicates: equal answers are equal byte by byte. */

typedef struct {
    ngx_etcd_resolver_address_t    *elts;
    ngx_uint_t                      n;
    ngx_uint_t                      refused;    /* not allowed */
    ngx_uint_t                      beyond;     /* above the limit */
} ngx_etcd_resolver_answer_t;


/*
 * A user of a name.  The user owns the memory and sets "changed" and "data";
 * all other fields must be zero before the first ngx_etcd_resolver_use().
 */

struct ngx_etcd_resolver_use_s {
    ngx_etcd_resolver_name_t       *name;       /* NULL: not in use */
    ngx_queue_t                     queue;
    unsigned                        pending:1;  /* private */

    /*
     * The answer changed, or there is no answer for a new reason.  Called
     * from the event loop only.  The handler may begin and end any use,
     * including this one.
     */
    void                          (*changed)(ngx_etcd_resolver_use_t *use);
    void                           *data;
};


/* must not change while the resolver exists */

typedef struct {
    ngx_str_t                      *upstream;   /* name, for the log */
    ngx_log_t                      *log;
    ngx_resolver_t                 *resolver;   /* of the configuration */
    ngx_msec_t                      timeout;

    /* Returns NULL, or why the address is refused: "is not allowed". */
    char                         *(*refuse)(void *data, struct sockaddr *sa);
    void                           *data;
} ngx_etcd_resolver_conf_t;


/*
 * Allocates a resolver from the pool.  The pool must exist as long as any
 * name is used.  NULL: no memory.
 */
ngx_etcd_resolver_t *ngx_etcd_resolver_create(ngx_etcd_resolver_conf_t *conf,
    ngx_pool_t *pool);

/*
 * Makes the use refer to the name (lower case) instead of its former name.
 * On NGX_ERROR (no memory) the use is unchanged.
 */
ngx_int_t ngx_etcd_resolver_use(ngx_etcd_resolver_t *resolver,
    ngx_etcd_resolver_use_t *use, ngx_str_t *name);

/* Ends the use, if any.  A name without users is forgotten. */
void ngx_etcd_resolver_unuse(ngx_etcd_resolver_use_t *use);

/*
 * Returns the current answer; valid until changed() is called.  If n is 0,
 * the reason says why; an empty reason means that the first answer is
 * awaited.
 */
ngx_etcd_resolver_answer_t *ngx_etcd_resolver_answer(
    ngx_etcd_resolver_use_t *use, ngx_str_t *reason);

/*
 * Selects one address for a user that needs only one: the address of
 * "current" (ignoring the port) if the answer contains it, otherwise the
 * lowest one.  The answer must not be empty; current may be NULL.
 */
ngx_etcd_resolver_address_t *ngx_etcd_resolver_choose(
    ngx_etcd_resolver_answer_t *answer, struct sockaddr *current);

void ngx_etcd_resolver_sort(ngx_etcd_resolver_address_t *elts, ngx_uint_t n);

/* Returns the name; valid while the name is used. */
ngx_str_t *ngx_etcd_resolver_text(ngx_etcd_resolver_name_t *name);


#endif /* _NGX_ETCD_RESOLVER_H_INCLUDED_ */
