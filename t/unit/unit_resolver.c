
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The resolver of host names without a network and without time, as a
 * directive:
 *
 *     etcd_resolver COMMAND ...;
 *
 * Each command is one argument:
 *
 *     use U NAME              the user U (a number) uses the name
 *     unuse U
 *     when U V                if U is told of a change, V uses nothing any more
 *     answer NAME TTL [ADDRESS ...]
 *     fail NAME REASON
 *     wait MS                 the clock goes on, timers expire
 *     show U [CURRENT]        what is known, and which of it is chosen
 *
 * Addresses that begin with "10." are refused.  Writes one line, "resolver: "
 * and what happened in turn: "ask NAME", "forget NAME", "changed U", and
 * "U=ADDRESS,ADDRESS" or "U=reason", with "(REFUSED/BEYOND)" where it is not 0
 * and ">ADDRESS" for the one that is chosen.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_resolver.h>
#include "unit.h"


#define NGX_ETCD_UNIT_USERS  100
#define NGX_ETCD_UNIT_NAMES  128
#define NGX_ETCD_UNIT_WORDS  128


typedef struct {
    ngx_etcd_resolver_use_t    use;              /* first */
    ngx_uint_t                 ends;             /* with a change; 0: none */
} ngx_etcd_unit_user_t;


typedef struct {
    ngx_etcd_resolver_t       *resolver;
    ngx_etcd_unit_user_t       users[NGX_ETCD_UNIT_USERS];
    ngx_etcd_resolver_name_t  *asked[NGX_ETCD_UNIT_NAMES];
    ngx_uint_t                 nasked;
} ngx_etcd_unit_world_t;


static void ngx_etcd_unit_run(ngx_etcd_unit_world_t *world, ngx_pool_t *pool,
    ngx_str_t *command);
static ngx_uint_t ngx_etcd_unit_number(ngx_str_t *word);
static void ngx_etcd_unit_answer(ngx_etcd_unit_world_t *world,
    ngx_str_t *word, ngx_uint_t n);
static ngx_etcd_resolver_name_t *ngx_etcd_unit_asked(
    ngx_etcd_unit_world_t *world, ngx_str_t *text);
static void ngx_etcd_unit_parse(ngx_sockaddr_t *sockaddr, ngx_str_t *text);
static void ngx_etcd_unit_known(ngx_etcd_unit_user_t *user, ngx_str_t *current);
static void ngx_etcd_unit_address(ngx_etcd_resolver_address_t *address);
static ngx_int_t ngx_etcd_unit_ask(ngx_etcd_resolver_name_t *name);
static void ngx_etcd_unit_forget(ngx_etcd_resolver_name_t *name);
static void ngx_etcd_unit_changed(ngx_etcd_resolver_use_t *use);
static char *ngx_etcd_unit_refuse(void *data, struct sockaddr *sa);


/* of the directive that runs */

static ngx_etcd_unit_world_t  *ngx_etcd_unit_world;


char *
ngx_etcd_unit_resolver(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t                 *value, upstream;
    ngx_uint_t                 i;
    ngx_etcd_unit_world_t      world;
    ngx_etcd_resolver_conf_t   rcf;

    ngx_memzero(&world, sizeof(ngx_etcd_unit_world_t));
    ngx_memzero(&rcf, sizeof(ngx_etcd_resolver_conf_t));

    ngx_str_set(&upstream, "unit");
    ngx_etcd_unit_world = &world;
    ngx_event_timer_init(cf->log);

    rcf.upstream = &upstream;
    rcf.log = cf->log;
    rcf.refuse = ngx_etcd_unit_refuse;
    rcf.ask = ngx_etcd_unit_ask;
    rcf.forget = ngx_etcd_unit_forget;

    world.resolver = ngx_etcd_resolver_create(&rcf, cf->pool);
    value = cf->args->elts;

    printf("resolver:");

    for (i = 1; i < cf->args->nelts; i++) {
        ngx_etcd_unit_run(&world, cf->pool, &value[i]);
    }

    for (i = 0; i < NGX_ETCD_UNIT_USERS; i++) {
        ngx_etcd_resolver_unuse(&world.users[i].use);
    }

    printf("\n");

    return (ngx_event_timer_rbtree.root == ngx_event_timer_rbtree.sentinel)
           ? NGX_CONF_OK : "has timers left";
}


static void
ngx_etcd_unit_run(ngx_etcd_unit_world_t *world, ngx_pool_t *pool,
    ngx_str_t *command)
{
    u_char                *p, *last;
    ngx_str_t              word[NGX_ETCD_UNIT_WORDS];
    ngx_uint_t             n;
    ngx_etcd_unit_user_t  *user;

    ngx_memzero(word, sizeof(word));

    last = command->data + command->len;
    n = 0;

    for (p = command->data; p < last && n < NGX_ETCD_UNIT_WORDS; p++) {
        word[n].data = p;
        while (p < last && *p != ' ') {
            p++;
        }
        word[n].len = p - word[n].data;
        n++;
    }

    user = &world->users[ngx_etcd_unit_number(&word[1])];

    user->use.changed = ngx_etcd_unit_changed;

    if (ngx_strncmp(word[0].data, "use ", 4) == 0) {
        (void) ngx_etcd_resolver_use(world->resolver, &user->use, &word[2]);

    } else if (ngx_strncmp(word[0].data, "unuse ", 6) == 0) {
        ngx_etcd_resolver_unuse(&user->use);

    } else if (ngx_strncmp(word[0].data, "when ", 5) == 0) {
        user->ends = ngx_etcd_unit_number(&word[2]) + 1;

    } else if (ngx_strncmp(word[0].data, "wait ", 5) == 0) {
        ngx_current_msec += ngx_atoi(word[1].data, word[1].len);
        ngx_event_expire_timers();

    } else if (ngx_strncmp(word[0].data, "show ", 5) == 0) {
        ngx_etcd_unit_known(user, &word[2]);

    } else {
        ngx_etcd_unit_answer(world, word, n);
    }
}


/* 0: it is none of a user */

static ngx_uint_t
ngx_etcd_unit_number(ngx_str_t *word)
{
    ngx_int_t  n;

    n = ngx_atoi(word->data, word->len);

    return (n > 0 && n < NGX_ETCD_UNIT_USERS) ? (ngx_uint_t) n : 0;
}


/* of a name that is being asked for */

static void
ngx_etcd_unit_answer(ngx_etcd_unit_world_t *world, ngx_str_t *word,
    ngx_uint_t n)
{
    time_t                     valid;
    ngx_str_t                  reason;
    ngx_uint_t                 i;
    ngx_sockaddr_t             sockaddrs[NGX_ETCD_UNIT_WORDS];
    ngx_resolver_addr_t        addrs[NGX_ETCD_UNIT_WORDS];
    ngx_etcd_resolver_name_t  *name;

    name = ngx_etcd_unit_asked(world, &word[1]);

    if (name == NULL) {
        printf(" (nobody asks)");
        return;
    }

    if (word[0].data[0] == 'f') {
        ngx_etcd_resolver_answered(name, 0, &word[2]);
        return;
    }

    ngx_memzero(sockaddrs, sizeof(sockaddrs));
    valid = ngx_time() + ngx_atoi(word[2].data, word[2].len);

    for (i = 3; i < n; i++) {
        ngx_etcd_unit_parse(&sockaddrs[i], &word[i]);

        ngx_memzero(&addrs[i - 3], sizeof(ngx_resolver_addr_t));
        addrs[i - 3].sockaddr = &sockaddrs[i].sockaddr;
        addrs[i - 3].socklen = sizeof(struct sockaddr_in);
    }

    ngx_str_null(&reason);

    ngx_etcd_resolver_found(name, addrs, n - 3);
    ngx_etcd_resolver_answered(name, valid, &reason);
}


/* NULL: it is not asked for; it is not any more */

static ngx_etcd_resolver_name_t *
ngx_etcd_unit_asked(ngx_etcd_unit_world_t *world, ngx_str_t *text)
{
    ngx_str_t                 *other;
    ngx_uint_t                 i;
    ngx_etcd_resolver_name_t  *name;

    for (i = 0; i < world->nasked; i++) {
        name = world->asked[i];
        other = ngx_etcd_resolver_text(name);

        if (other->len == text->len
            && ngx_memcmp(other->data, text->data, text->len) == 0)
        {
            world->asked[i] = world->asked[--world->nasked];
            return name;
        }
    }

    return NULL;
}


static void
ngx_etcd_unit_parse(ngx_sockaddr_t *sockaddr, ngx_str_t *text)
{
    sockaddr->sockaddr_in.sin_family = AF_INET;
    sockaddr->sockaddr_in.sin_port = htons(53);
    sockaddr->sockaddr_in.sin_addr.s_addr = ngx_inet_addr(text->data,
                                                          text->len);
}


static void
ngx_etcd_unit_known(ngx_etcd_unit_user_t *user, ngx_str_t *current)
{
    ngx_str_t                    reason;
    ngx_uint_t                   i;
    ngx_sockaddr_t               sockaddr;
    ngx_etcd_resolver_answer_t  *answer;

    answer = ngx_etcd_resolver_answer(&user->use, &reason);

    printf(" %d=", (int) (user - ngx_etcd_unit_world->users));

    if (answer->n == 0) {
        printf("%.*s", (int) reason.len, reason.data);
        return;
    }

    for (i = 0; i < answer->n; i++) {
        printf("%s", i ? "," : "");
        ngx_etcd_unit_address(&answer->elts[i]);
    }

    if (answer->refused || answer->beyond) {
        printf("(%d/%d)", (int) answer->refused, (int) answer->beyond);
    }

    if (current->len != 0) {
        ngx_memzero(&sockaddr, sizeof(ngx_sockaddr_t));
        ngx_etcd_unit_parse(&sockaddr, current);

        printf(">");
        ngx_etcd_unit_address(ngx_etcd_resolver_choose(answer,
                                                       &sockaddr.sockaddr));
    }
}


static void
ngx_etcd_unit_address(ngx_etcd_resolver_address_t *address)
{
    size_t  len;
    u_char  text[NGX_SOCKADDR_STRLEN];

    len = ngx_sock_ntop(&address->sockaddr.sockaddr, address->socklen, text,
                        NGX_SOCKADDR_STRLEN, 0);

    printf("%.*s", (int) len, text);
}


static ngx_int_t
ngx_etcd_unit_ask(ngx_etcd_resolver_name_t *name)
{
    ngx_str_t              *text;
    ngx_etcd_unit_world_t  *world;

    world = ngx_etcd_unit_world;
    world->asked[world->nasked++] = name;

    text = ngx_etcd_resolver_text(name);
    printf(" ask %.*s", (int) text->len, text->data);

    return NGX_OK;
}


static void
ngx_etcd_unit_forget(ngx_etcd_resolver_name_t *name)
{
    ngx_str_t  *text;

    text = ngx_etcd_resolver_text(name);
    printf(" forget %.*s", (int) text->len, text->data);

    (void) ngx_etcd_unit_asked(ngx_etcd_unit_world, text);
}


static void
ngx_etcd_unit_changed(ngx_etcd_resolver_use_t *use)
{
    ngx_etcd_unit_user_t  *user;

    user = (ngx_etcd_unit_user_t *) use;

    printf(" changed %d", (int) (user - ngx_etcd_unit_world->users));

    if (user->ends) {
        ngx_etcd_resolver_unuse(
                          &ngx_etcd_unit_world->users[user->ends - 1].use);
    }
}


static char *
ngx_etcd_unit_refuse(void *data, struct sockaddr *sa)
{
    struct sockaddr_in  *sin;

    sin = (struct sockaddr_in *) sa;

    return (ntohl(sin->sin_addr.s_addr) >> 24 == 10) ? "is refused" : NULL;
}
