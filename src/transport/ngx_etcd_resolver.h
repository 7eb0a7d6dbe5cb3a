
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Host names and the addresses that are known of them.  A name is resolved
 * when it is first used, once for all its users, and again when the answer is
 * not valid any more.  Nothing here ever waits.
 *
 * A name is in one of three states:
 *
 *     WAITING   for its turn: NGX_ETCD_RESOLVER_MAX_ASKING others are ASKING
 *     ASKING    until ngx_etcd_resolver_answered()
 *     RESTING   until its timer expires, then ASKING or WAITING
 *
 * Failures change nothing of what is known.
 */


#ifndef _NGX_ETCD_RESOLVER_H_INCLUDED_
#define _NGX_ETCD_RESOLVER_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_lookup.h>


#define NGX_ETCD_RESOLVER_ADDRESSES  64      /* of a name: the lowest ones */
#define NGX_ETCD_RESOLVER_MAX_ASKING 64      /* names at a time */

/* ms until a name is asked for again: however short its TTL, and after a
   failure, which is twice as long after each further one */

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


/* the port is 0, and so is what follows socklen bytes */

typedef struct {
    ngx_sockaddr_t                  sockaddr;
    socklen_t                       socklen;
} ngx_etcd_resolver_address_t;


/* sorted, no address twice: equal answers are equal byte by byte */

typedef struct {
    ngx_etcd_resolver_address_t    *elts;
    ngx_uint_t                      n;
    ngx_uint_t                      refused;    /* others: not allowed */
    ngx_uint_t                      beyond;     /* others: too many */
} ngx_etcd_resolver_answer_t;


/*
 * A user of a name.  The user owns the memory, and sets changed and data; all
 * is zero before the first ngx_etcd_resolver_use().
 */

struct ngx_etcd_resolver_use_s {
    ngx_etcd_resolver_name_t       *name;       /* NULL: of none */
    ngx_queue_t                     queue;
    unsigned                        pending:1;  /* private */

    /*
     * The answer is another one, or nothing is known for another reason than
     * before.  Called from the event loop only.  Any use, this one too, may
     * begin or end meanwhile.
     */
    void                          (*changed)(ngx_etcd_resolver_use_t *use);
    void                           *data;
};


/* constant while the resolver exists */

typedef struct {
    ngx_str_t                      *upstream;   /* its name, for the log */
    ngx_log_t                      *log;
    ngx_resolver_t                 *resolver;   /* of nginx */
    ngx_msec_t                      timeout;

    /* NULL, or why the address may not be used: "is not allowed" */
    char                         *(*refuse)(void *data, struct sockaddr *sa);
    void                           *data;

    /*
     * Who asks; NULL: nginx's resolver is asked.  ask() leads to one call of
     * ngx_etcd_resolver_answered() after it has returned, unless forget() is
     * called before.  NGX_ERROR: no memory.
     */
    ngx_int_t                     (*ask)(ngx_etcd_resolver_name_t *name);
    void                          (*forget)(ngx_etcd_resolver_name_t *name);
} ngx_etcd_resolver_conf_t;


/*
 * The resolver is memory of the pool, and exists for as long as its names are
 * used.  NULL: no memory.
 */
ngx_etcd_resolver_t *ngx_etcd_resolver_create(ngx_etcd_resolver_conf_t *conf,
    ngx_pool_t *pool);

/*
 * The use is one of that name (lower case) from now on, and of no other any
 * more.  NGX_ERROR: no memory, the use is what it was.
 */
ngx_int_t ngx_etcd_resolver_use(ngx_etcd_resolver_t *resolver,
    ngx_etcd_resolver_use_t *use, ngx_str_t *name);

/* a name without users is forgotten; nothing is done for a use of none */
void ngx_etcd_resolver_unuse(ngx_etcd_resolver_use_t *use);

/*
 * What is known of the name; it stays until changed() is called.  If n is 0,
 * the reason says why, or is empty while the first answer is awaited.
 */
ngx_etcd_resolver_answer_t *ngx_etcd_resolver_answer(
    ngx_etcd_resolver_use_t *use, ngx_str_t *reason);

/*
 * Where one address of several is used: that of "current" (its port aside) as
 * long as it is in the answer, or else the lowest one.  The answer has one at
 * least; current may be NULL.
 */
ngx_etcd_resolver_address_t *ngx_etcd_resolver_choose(
    ngx_etcd_resolver_answer_t *answer, struct sockaddr *current);

void ngx_etcd_resolver_sort(ngx_etcd_resolver_address_t *elts, ngx_uint_t n);

/* the name itself; it stays while the name is used */
ngx_str_t *ngx_etcd_resolver_text(ngx_etcd_resolver_name_t *name);


/*
 * For ask() and forget().
 */

/*
 * What was found, in any order, up to which second (as ngx_time() counts them)
 * it is valid; or, without addresses, why there are none.
 */
void ngx_etcd_resolver_found(ngx_etcd_resolver_name_t *name,
    ngx_resolver_addr_t *addrs, ngx_uint_t n);
void ngx_etcd_resolver_answered(ngx_etcd_resolver_name_t *name, time_t valid,
    ngx_str_t *reason);


#endif /* _NGX_ETCD_RESOLVER_H_INCLUDED_ */
