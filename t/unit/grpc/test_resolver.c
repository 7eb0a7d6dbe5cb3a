
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The resolver of host names without name servers and without time: what it
 * asks when, what it keeps, and whom it tells.  A case is a script of
 *
 *     use U NAME              the user U (a number) uses the name
 *     unuse U
 *     when U V                if U is told of a change, V uses nothing any more
 *     answer NAME TTL [ADDRESS ...]
 *     fail NAME REASON
 *     wait MS                 the clock goes on, timers expire
 *     show U [CURRENT]        what is known, and which of it is chosen
 *
 * and what happens: "ask NAME", "forget NAME", "changed U", and
 * "U=ADDRESS,ADDRESS" or "U=reason", with "(REFUSED/BEYOND)" where it is not 0
 * and ">ADDRESS" for the one that is chosen.  Addresses that begin with "10."
 * are refused.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_resolver.h>
#include "ngx_etcd_tap.h"
#include "test_loop.h"


#define TEST_RESOLVER_USERS  70
#define TEST_RESOLVER_WORDS  80
#define TEST_RESOLVER_TEXT   4096


typedef struct {
    ngx_etcd_resolver_use_t    use;              /* first */
    ngx_uint_t                 ends;             /* with a change; 0: none */
} test_resolver_user_t;


typedef struct {
    ngx_etcd_resolver_t       *resolver;
    ngx_etcd_resolver_conf_t   conf;
    ngx_str_t                  upstream;
    test_resolver_user_t       users[TEST_RESOLVER_USERS];
    ngx_etcd_lookup_t         *asked[TEST_RESOLVER_USERS];
    ngx_uint_t                 nasked;
    u_char                    *p;                /* the log of events */
    u_char                     text[TEST_RESOLVER_TEXT];
} test_resolver_t;


/* instead of nginx's resolver, while a script runs */

void __real_ngx_etcd_lookup_start(ngx_etcd_lookup_t *lookup, ngx_log_t *log);
void __wrap_ngx_etcd_lookup_start(ngx_etcd_lookup_t *lookup, ngx_log_t *log);
void __real_ngx_etcd_lookup_cancel(ngx_etcd_lookup_t *lookup);
void __wrap_ngx_etcd_lookup_cancel(ngx_etcd_lookup_t *lookup);


static test_resolver_t  test_resolver_state;


static void
test_resolver_say(const char *fmt, ...)
{
    va_list  args;

    va_start(args, fmt);
    test_resolver_state.p = ngx_vslprintf(test_resolver_state.p,
                                          test_resolver_state.text
                                          + TEST_RESOLVER_TEXT, fmt, args);
    va_end(args);
}


/* Returns the lookup of the name, which has ended. */

static ngx_etcd_lookup_t *
test_resolver_asked(ngx_str_t *text)
{
    ngx_str_t          *other;
    ngx_uint_t          i;
    test_resolver_t    *state;
    ngx_etcd_lookup_t  *lookup;

    state = &test_resolver_state;

    for (i = 0; i < state->nasked; i++) {
        lookup = state->asked[i];
        other = &lookup->name;

        if (other->len == text->len
            && ngx_memcmp(other->data, text->data, text->len) == 0)
        {
            state->asked[i] = state->asked[--state->nasked];
            return lookup;
        }
    }

    return NULL;
}


void
__wrap_ngx_etcd_lookup_start(ngx_etcd_lookup_t *lookup, ngx_log_t *log)
{
    if (test_resolver_state.resolver == NULL) {
        __real_ngx_etcd_lookup_start(lookup, log);
        return;
    }

    test_resolver_state.asked[test_resolver_state.nasked++] = lookup;

    test_resolver_say(" ask %V", &lookup->name);
}


void
__wrap_ngx_etcd_lookup_cancel(ngx_etcd_lookup_t *lookup)
{
    if (test_resolver_state.resolver == NULL) {
        __real_ngx_etcd_lookup_cancel(lookup);
        return;
    }

    test_resolver_say(" forget %V", &lookup->name);

    (void) test_resolver_asked(&lookup->name);
}


static void
test_resolver_changed(ngx_etcd_resolver_use_t *use)
{
    test_resolver_user_t  *user;

    user = (test_resolver_user_t *) use;

    test_resolver_say(" changed %ui",
                      (ngx_uint_t) (user - test_resolver_state.users));

    if (user->ends) {
        ngx_etcd_resolver_unuse(
                          &test_resolver_state.users[user->ends - 1].use);
    }
}


static char *
test_resolver_refuse(void *data, struct sockaddr *sa)
{
    struct sockaddr_in  *sin;

    sin = (struct sockaddr_in *) sa;

    return (ntohl(sin->sin_addr.s_addr) >> 24 == 10) ? "is refused" : NULL;
}


static void
test_resolver_parse(ngx_sockaddr_t *sockaddr, ngx_str_t *text)
{
    ngx_memzero(sockaddr, sizeof(ngx_sockaddr_t));

    sockaddr->sockaddr_in.sin_family = AF_INET;
    sockaddr->sockaddr_in.sin_port = htons(53);
    sockaddr->sockaddr_in.sin_addr.s_addr = ngx_inet_addr(text->data,
                                                          text->len);
}


static void
test_resolver_answer(ngx_str_t *word, ngx_uint_t n)
{
    ngx_uint_t            i;
    ngx_sockaddr_t        sockaddrs[TEST_RESOLVER_WORDS];
    ngx_etcd_lookup_t    *lookup;
    ngx_resolver_addr_t   addrs[TEST_RESOLVER_WORDS];

    lookup = test_resolver_asked(&word[1]);

    if (lookup == NULL) {
        test_resolver_say(" (nobody asks)");
        return;
    }

    if (word[0].data[0] == 'f') {
        lookup->reason = word[2];
        lookup->done(lookup->data);
        return;
    }

    lookup->valid = ngx_time() + ngx_atoi(word[2].data, word[2].len);

    for (i = 3; i < n; i++) {
        test_resolver_parse(&sockaddrs[i], &word[i]);

        ngx_memzero(&addrs[i - 3], sizeof(ngx_resolver_addr_t));
        addrs[i - 3].sockaddr = &sockaddrs[i].sockaddr;
        addrs[i - 3].socklen = sizeof(struct sockaddr_in);
    }

    lookup->found(lookup->data, addrs, n - 3);
    lookup->done(lookup->data);
}


static void
test_resolver_address(ngx_etcd_resolver_address_t *address)
{
    size_t  len;
    u_char  text[NGX_SOCKADDR_STRLEN];

    len = ngx_sock_ntop(&address->sockaddr.sockaddr, address->socklen, text,
                        NGX_SOCKADDR_STRLEN, 0);

    test_resolver_say("%*s", len, text);
}


static void
test_resolver_show(test_resolver_user_t *user, ngx_str_t *current)
{
    ngx_str_t                    reason;
    ngx_uint_t                   i;
    ngx_sockaddr_t               sockaddr;
    ngx_etcd_resolver_answer_t  *answer;

    if (user->use.name == NULL) {

        /* there was no memory for the use */

        return;
    }

    answer = ngx_etcd_resolver_answer(&user->use, &reason);

    test_resolver_say(" %ui=",
                      (ngx_uint_t) (user - test_resolver_state.users));

    if (answer->n == 0) {
        test_resolver_say("%V", &reason);
        return;
    }

    for (i = 0; i < answer->n; i++) {
        test_resolver_say("%s", i ? "," : "");
        test_resolver_address(&answer->elts[i]);
    }

    if (answer->refused || answer->beyond) {
        test_resolver_say("(%ui/%ui)", answer->refused, answer->beyond);
    }

    if (current->len != 0) {
        test_resolver_parse(&sockaddr, current);
        test_resolver_say(">");
        test_resolver_address(ngx_etcd_resolver_choose(answer,
                                                       &sockaddr.sockaddr));
    }
}


/* A command, which ends with a semicolon or with the script. */

static void
test_resolver_command(char *command, size_t len)
{
    u_char                *p, *last;
    ngx_str_t              word[TEST_RESOLVER_WORDS];
    ngx_int_t              number;
    ngx_uint_t             n;
    test_resolver_user_t  *user;

    ngx_memzero(word, sizeof(word));

    p = (u_char *) command;
    last = p + len;

    for (n = 0; p < last && n < TEST_RESOLVER_WORDS; n++) {
        word[n].data = p;
        p += strcspn((char *) p, " ;");
        word[n].len = p++ - word[n].data;
    }

    number = ngx_atoi(word[1].data, word[1].len);

    user = &test_resolver_state.users[(number > 0
                                       && number < TEST_RESOLVER_USERS)
                                      ? number : 0];
    user->use.changed = test_resolver_changed;

    switch (word[0].data[0]) {

    case 'u':

        if (word[0].len == 3) {
            (void) ngx_etcd_resolver_use(test_resolver_state.resolver,
                                         &user->use, &word[2]);

        } else {
            ngx_etcd_resolver_unuse(&user->use);
        }

        break;

    case 'w':

        if (word[0].data[1] == 'h') {
            user->ends = ngx_atoi(word[2].data, word[2].len) + 1;

        } else {
            test_loop_pass(number);
        }

        break;

    case 's':
        test_resolver_show(user, &word[2]);
        break;

    default: /* answer, fail */
        test_resolver_answer(word, n);
    }
}


static void
test_resolver_happens(ngx_pool_t *pool, char *script, char *wanted)
{
    size_t            len;
    ngx_str_t         text;
    ngx_uint_t        i;
    test_resolver_t  *state;

    state = &test_resolver_state;
    ngx_memzero(state, sizeof(test_resolver_t));

    test_loop_init(pool->log);

    ngx_str_set(&state->upstream, "unit");

    state->p = state->text;
    state->conf.upstream = &state->upstream;
    state->conf.log = pool->log;
    state->conf.refuse = test_resolver_refuse;

    state->resolver = ngx_etcd_resolver_create(&state->conf, pool);
    tap_expect(state->resolver != NULL);

    for ( /* void */ ; *script != '\0'; script += len + (script[len] == ';')) {
        len = strcspn(script, ";");
        test_resolver_command(script, len);
    }

    for (i = 0; i < TEST_RESOLVER_USERS; i++) {
        ngx_etcd_resolver_unuse(&state->users[i].use);
    }

    tap_check(test_loop_idle());

    state->resolver = NULL;

    if (!test_alloc_failed()) {
        text.data = state->text;
        text.len = state->p - state->text;
        tap_text(&text, wanted);
    }
}


static void
test_resolver_once(ngx_pool_t *pool)
{
    test_resolver_happens(pool,
        "use 1 one;use 2 one;show 1;answer one 0 1.0.0.2 1.0.0.1;show 1;"
        "use 3 one;show 3",
        " ask one 1= changed 1 changed 2 1=1.0.0.1,1.0.0.2"
        " 3=1.0.0.1,1.0.0.2");
}


/* The same addresses in another order, and twice, are no change. */

static void
test_resolver_same(ngx_pool_t *pool)
{
    test_resolver_happens(pool,
        "use 1 one;answer one 0 1.0.0.1 1.0.0.2;wait 1000;"
        "answer one 0 1.0.0.2 1.0.0.1 1.0.0.2;show 1;wait 1000;"
        "answer one 0 1.0.0.2;show 1",
        " ask one changed 1 ask one 1=1.0.0.1,1.0.0.2 ask one changed 1"
        " 1=1.0.0.2");
}


/* An address stays while the name has it. */

static void
test_resolver_stays(ngx_pool_t *pool)
{
    test_resolver_happens(pool,
        "use 1 one;answer one 0 1.0.0.1 1.0.0.2;show 1 1.0.0.2;"
        "show 1 1.0.0.3",
        " ask one changed 1 1=1.0.0.1,1.0.0.2>1.0.0.2"
        " 1=1.0.0.1,1.0.0.2>1.0.0.1");
}


/* A name is asked for again after a second at least, or its TTL. */

static void
test_resolver_ttl(ngx_pool_t *pool)
{
    test_resolver_happens(pool,
        "use 1 one;answer one 0 1.0.0.1;wait 999;wait 1;"
        "answer one 10 1.0.0.1;wait 10999;show 1;wait 1",
        " ask one changed 1 ask one 1=1.0.0.1 ask one forget one");
}


/* After failures later each time, up to 10 s. */

static void
test_resolver_retry(ngx_pool_t *pool)
{
    test_resolver_happens(pool,
        "use 1 one;"
        "fail one bad;wait 999;show 1;wait 1;"
        "fail one bad;wait 1999;show 1;wait 1;"
        "fail one bad;wait 3999;show 1;wait 1;"
        "fail one bad;wait 7999;show 1;wait 1;"
        "fail one bad;wait 9999;show 1;wait 1;"
        "fail one bad;wait 9999;show 1;wait 1;"
        "answer one 0 1.0.0.1;wait 1000;fail one bad;wait 1000",
        " ask one changed 1 1=bad ask one 1=bad ask one 1=bad ask one"
        " 1=bad ask one 1=bad ask one 1=bad ask one changed 1 ask one"
        " ask one forget one");
}


static void
test_resolver_failures(ngx_pool_t *pool)
{
    test_resolver_happens(pool,
        "use 1 one;fail one bad;wait 1000;fail one worse;show 1;wait 2000;"
        "answer one 0 1.0.0.1;wait 1000;fail one bad;show 1",
        " ask one changed 1 ask one changed 1 1=worse ask one changed 1"
        " ask one 1=1.0.0.1");
}


static void
test_resolver_refused(ngx_pool_t *pool)
{
    test_resolver_happens(pool,
        "use 1 one;answer one 0 10.0.0.1 1.0.0.1;show 1;wait 1000;"
        "answer one 0 10.0.0.1 10.0.0.2 1.0.0.1;show 1;wait 1000;"
        "answer one 0 10.0.0.1;show 1;use 2 two;answer two 0 10.0.0.1;show 2",
        " ask one changed 1 1=1.0.0.1(1/0) ask one changed 1 1=1.0.0.1(2/0)"
        " ask one 1=1.0.0.1(2/0) ask two changed 2"
        " 2=there is no address that may be used");
}


/* Of too many addresses the lowest ones are used. */

static void
test_resolver_many(ngx_pool_t *pool)
{
    u_char       script[2048], wanted[2048], *p;
    ngx_uint_t   i;

    p = ngx_sprintf(script, "use 1 one;answer one 0");

    for (i = 70; i >= 1; i--) {
        p = ngx_sprintf(p, " 1.0.0.%ui", i);
    }

    ngx_sprintf(p, ";show 1%Z");

    p = ngx_sprintf(wanted, " ask one changed 1 1=1.0.0.1");

    for (i = 2; i <= NGX_ETCD_RESOLVER_ADDRESSES; i++) {
        p = ngx_sprintf(p, ",1.0.0.%ui", i);
    }

    ngx_sprintf(p, "(0/6)%Z");

    test_resolver_happens(pool, (char *) script, (char *) wanted);
}


/* A name that nobody uses is forgotten, in any state. */

static void
test_resolver_unused(ngx_pool_t *pool)
{
    test_resolver_happens(pool,
        "use 1 one;unuse 1;use 1 two;use 2 two;unuse 1;"
        "answer two 0 1.0.0.1;unuse 2;wait 100000;use 1 one;use 1 two",
        " ask one forget one ask two changed 2 ask one ask two forget one"
        " forget two");
}


/* A user that is told may go, and take others along. */

static void
test_resolver_leave(ngx_pool_t *pool)
{
    test_resolver_happens(pool,
        "use 1 one;use 2 one;use 3 one;when 1 2;when 3 1;"
        "answer one 0 1.0.0.1;unuse 3;use 1 one;when 1 1;"
        "answer one 0 1.0.0.1;wait 100000",
        " ask one changed 1 changed 3 ask one changed 1");
}


/* Names above the limit wait until others are answered. */

static void
test_resolver_limit(ngx_pool_t *pool)
{
    u_char       script[2048], wanted[4096], *p;
    ngx_uint_t   i;

    p = script;

    for (i = 1; i <= NGX_ETCD_RESOLVER_MAX_ASKING + 3; i++) {
        p = ngx_sprintf(p, "use %ui n%ui;", i, i);
    }

    ngx_sprintf(p, "unuse 66;answer n5 0 1.0.0.1;unuse 1;show 67%Z");

    p = wanted;

    for (i = 1; i <= NGX_ETCD_RESOLVER_MAX_ASKING; i++) {
        p = ngx_sprintf(p, " ask n%ui", i);
    }

    p = ngx_sprintf(p, " changed 5 ask n65 forget n1 ask n67 67=");

    for (i = 2; i <= 67; i++) {
        if (i != 5 && i != 66) {
            p = ngx_sprintf(p, " forget n%ui", i);
        }
    }

    *p = '\0';

    test_resolver_happens(pool, (char *) script, (char *) wanted);
}


ngx_etcd_tap_test_t  test_resolver[] = {
    { "resolver: a name is asked for once", test_resolver_once },
    { "resolver: the same addresses", test_resolver_same },
    { "resolver: an address stays", test_resolver_stays },
    { "resolver: TTL", test_resolver_ttl },
    { "resolver: after failures", test_resolver_retry },
    { "resolver: failures keep addresses", test_resolver_failures },
    { "resolver: refused addresses", test_resolver_refused },
    { "resolver: too many addresses", test_resolver_many },
    { "resolver: names without users", test_resolver_unused },
    { "resolver: users that leave", test_resolver_leave },
    { "resolver: too many names", test_resolver_limit },
    { NULL, NULL }
};
