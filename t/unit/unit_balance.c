
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Balancing without etcd and without connections: a set of members in a zone,
 * tables of some workers, all in one process, and a time of their own.
 *
 *     etcd_unit set WORKERS METHOD [PARAMETER];
 *     etcd_unit add FROM COUNT [PARAMETER|down|drain|backup|weights=A-B|
 *                               priority=N ...];
 *     etcd_unit remove FROM COUNT;
 *     etcd_unit grow;                     slots are added by another worker
 *                                         than the owner, and by the owner
 *     etcd_unit held MSEC;                see ngx_etcd_unit_held()
 *     etcd_unit addresses ...;            and instructions, members:
 *                                         unit_address.c
 *     etcd_unit news;                     what comes from now on is new
 *     etcd_unit picks WORKER N;           one a ms: how many there are, chi
 *                                         square, and the worst deviation
 *     etcd_unit order WORKER N;           who was picked
 *     etcd_unit counts FROM COUNT;        how often, by the last of these
 *     etcd_unit keys WORKER N;            who is picked for keys that are
 *                                         always the same, and as by chance
 *     etcd_unit open WORKER N;            and keeps the connections
 *     etcd_unit close WORKER N [failed];  the oldest of them
 *     etcd_unit retry WORKER N;           by one request, each failing
 *     etcd_unit conns FROM COUNT;
 *     etcd_unit take MEMBER MAX;          one more, if that may be: how many
 *                                         there are then
 *     etcd_unit time MSEC;                goes by
 *     etcd_unit kill WORKER;
 *     etcd_unit sync WORKER;
 *     etcd_unit steps WORKER;             the same, in the smallest steps: how
 *                                         many, and the most members, and
 *                                         points of a hash ring, in one; and
 *                                         after how many a revision is known
 *                                         that is still being read
 *     etcd_unit some WORKER N;            N of these steps, or all there are
 *     etcd_unit call WORKER [held];  what the next step returns; while the
 *                                         mutex is held, or a change is half
 *                                         done
 *     etcd_unit ring WORKER;              the ring of "hash consistent": its
 *                                         points, KB, the sum of their CRCs,
 *                                         and the least and the most points
 *                                         that a member has for a unit of
 *                                         weight
 *     etcd_unit stall WORKER;             the same: calls, and the longest, us
 *                                         of CPU time
 *     etcd_unit orphan;                   the set is that of a leader, and is
 *                                         given up
 *     etcd_unit bench WORKER N;           ns of CPU time for a pick
 *
 * Members are numbers; number n is in slot n.  Each command but set, add,
 * remove, news, orphan and time writes one line to the standard output.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <sys/wait.h>
#include <ngx_etcd_balance.h>
#include <ngx_etcd_pick.h>
#include "test_module.h"
#include "unit_members.h"


#define NGX_ETCD_UNIT_ZONE     (512 * 1024 * 1024)
#define NGX_ETCD_UNIT_WORKERS  8
#define NGX_ETCD_UNIT_MEMBERS  120000
#define NGX_ETCD_UNIT_OPEN     100000
#define NGX_ETCD_UNIT_EXACT    1000     /* members: beyond no deviation */


typedef struct {
    ngx_etcd_zone_t             zone;
    ngx_etcd_table_t            table;
    ngx_etcd_pick_t            *open[NGX_ETCD_UNIT_OPEN];
    ngx_uint_t                  first;
    ngx_uint_t                  last;
} ngx_etcd_unit_worker_t;


static char *ngx_etcd_unit(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);


static ngx_command_t  ngx_etcd_unit_commands[] = {

    { ngx_string("etcd_unit"),
      NGX_MAIN_CONF|NGX_DIRECT_CONF|NGX_CONF_1MORE,
      ngx_etcd_unit,
      0,
      0,
      NULL },

      ngx_null_command
};


test_module(ngx_etcd_unit_balance_module, ngx_etcd_unit_commands);


static ngx_str_t                 ngx_etcd_unit_name = ngx_string("unit");
static ngx_log_t                *ngx_etcd_unit_log;
static ngx_pool_t               *ngx_etcd_unit_pool;
static ngx_etcd_zone_t           ngx_etcd_unit_zone;
static ngx_etcd_table_conf_t     ngx_etcd_unit_rules;
static ngx_etcd_member_set_t    *ngx_etcd_unit_set;
static ngx_etcd_unit_worker_t   *ngx_etcd_unit_workers;
static ngx_uint_t                ngx_etcd_unit_nworkers;
static ngx_uint_t                ngx_etcd_unit_next;
static uint32_t                  ngx_etcd_unit_count[NGX_ETCD_UNIT_MEMBERS];
static ngx_time_t                ngx_etcd_unit_time;


static ngx_int_t
ngx_etcd_unit_init(void)
{
    void             *addr;
    ngx_shm_zone_t    shm_zone;
    ngx_slab_pool_t  *sp;

    addr = mmap(NULL, NGX_ETCD_UNIT_ZONE, PROT_READ|PROT_WRITE,
                MAP_ANON|MAP_SHARED|MAP_NORESERVE, -1, 0);
    if (addr == MAP_FAILED) {
        return NGX_ERROR;
    }

    sp = addr;
    sp->end = (u_char *) addr + NGX_ETCD_UNIT_ZONE;
    sp->min_shift = 3;
    sp->addr = addr;

    if (ngx_shmtx_create(&sp->mutex, &sp->lock, NULL) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_slab_init(sp);

    ngx_memzero(&shm_zone, sizeof(ngx_shm_zone_t));
    shm_zone.shm.addr = addr;
    shm_zone.shm.size = NGX_ETCD_UNIT_ZONE;
    shm_zone.shm.log = ngx_etcd_unit_log;

    ngx_etcd_unit_workers = ngx_calloc(NGX_ETCD_UNIT_WORKERS
                                       * sizeof(ngx_etcd_unit_worker_t),
                                       ngx_etcd_unit_log);

    /* seconds that the test moves; from here on nobody else does */

    ngx_etcd_unit_time = *ngx_cached_time;
    ngx_cached_time = &ngx_etcd_unit_time;

    return (ngx_etcd_unit_workers == NULL)
           ? NGX_ERROR
           : ngx_etcd_zone_init(&ngx_etcd_unit_zone, &shm_zone, NULL);
}


static ngx_int_t
ngx_etcd_unit_do_set(ngx_uint_t nworkers, ngx_str_t *method,
    ngx_str_t *parameter)
{
    u_char                   buf[NGX_INT_T_LEN];
    ngx_uint_t               i;
    ngx_etcd_object_id_t     id;
    ngx_etcd_unit_worker_t  *worker;

    for (i = 0; i < ngx_etcd_unit_nworkers; i++) {
        ngx_etcd_table_done(&ngx_etcd_unit_workers[i].table);
        ngx_etcd_connection_count_leave(&ngx_etcd_unit_workers[i].zone);
    }

    ngx_etcd_unit_rules.leader = 0;

    /* chance is the same each time */

    srandom(1);

    ngx_memzero(&id, sizeof(ngx_etcd_object_id_t));

    id.name = ngx_etcd_unit_name;
    id.prefix.data = buf;
    id.prefix.len = ngx_sprintf(buf, "%ui", ++ngx_etcd_unit_next) - buf;

    ngx_etcd_unit_rules.method = ngx_etcd_balance_method(method, parameter);
    ngx_etcd_unit_set = ngx_etcd_object_declare(&ngx_etcd_unit_zone,
                                                &ngx_etcd_member_set_type, &id);
    ngx_etcd_unit_nworkers = nworkers;

    if (ngx_etcd_unit_rules.method == NULL || ngx_etcd_unit_set == NULL
        || nworkers > NGX_ETCD_UNIT_WORKERS)
    {
        return NGX_ERROR;
    }

    for (i = 0; i < nworkers; i++) {
        worker = &ngx_etcd_unit_workers[i];
        worker->zone = ngx_etcd_unit_zone;
        worker->first = 0;
        worker->last = 0;

        ngx_process_slot = i;
        ngx_etcd_connection_count_enter(&worker->zone);

        ngx_etcd_table_init(&worker->table, &ngx_etcd_unit_rules,
                            &worker->zone, ngx_etcd_unit_set,
                            ngx_etcd_unit_set->object.id, ngx_etcd_unit_log);

        if (ngx_etcd_table_start(&worker->table, 0, 0) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* however short the time is: there are no events that would go on with it */

static void
ngx_etcd_unit_follow(ngx_etcd_unit_worker_t *worker)
{
    ngx_etcd_table_follow(&worker->table);

    while (worker->table.unfinished) {
        (void) ngx_etcd_table_sync(&worker->table);
    }
}


/* the member's number, or -1; ngx_etcd_unit_end() ends the pick */

static ngx_int_t
ngx_etcd_unit_get(ngx_etcd_unit_worker_t *worker, ngx_etcd_pick_t *pick,
    ngx_str_t *key)
{
    ngx_peer_connection_t  pc;

    ngx_memzero(&pc, sizeof(ngx_peer_connection_t));
    pc.log = ngx_etcd_unit_log;
    pc.tries = 1;

    ngx_etcd_unit_follow(worker);

    (void) ngx_etcd_pick_init(pick, &worker->table, &ngx_etcd_unit_name,
                              ngx_etcd_unit_pool);

    if (key != NULL) {
        pick->key = *key;
    }

    if (ngx_etcd_pick_get(&pc, pick) != NGX_OK) {
        ngx_etcd_pick_done(pick);
        return -1;
    }

    ngx_etcd_unit_count[pick->peer->index]++;

    return pick->peer->index;
}


static void
ngx_etcd_unit_end(ngx_etcd_pick_t *pick, ngx_uint_t state)
{
    ngx_peer_connection_t  pc;

    ngx_memzero(&pc, sizeof(ngx_peer_connection_t));
    pc.log = ngx_etcd_unit_log;

    /* no latency is measured, which depends on what else the machine does */

    pick->begun.tv_sec = 0;

    ngx_etcd_pick_free(&pc, pick, state);
    ngx_etcd_pick_done(pick);
}


/* members that may be picked, by weight; returns the sum of these */

static double
ngx_etcd_unit_weights(ngx_etcd_unit_worker_t *worker, double *weights,
    ngx_uint_t *n)
{
    double            sum;
    ngx_uint_t        i;
    ngx_etcd_peer_t  *peer;

    *n = 0;
    sum = 0;

    for (i = 0; i < worker->table.nslots; i++) {
        peer = worker->table.slots[i];
        weights[i] = 0;

        if (peer != NULL && !peer->attr.down && !peer->attr.drain
            && !peer->attr.backup)
        {
            weights[i] = peer->attr.weight;
            sum += weights[i];
            (*n)++;
        }
    }

    return sum;
}


static void
ngx_etcd_unit_picks(ngx_etcd_unit_worker_t *worker, ngx_uint_t times)
{
    double            sum, chi, worst, early;
    double           *weights;
    ngx_int_t         k;
    ngx_uint_t        i, n, t;
    ngx_etcd_pick_t   pick;

    ngx_etcd_unit_follow(worker);

    weights = ngx_alloc((worker->table.nslots + 1) * sizeof(double),
                        ngx_etcd_unit_log);
    if (weights == NULL) {
        return;
    }

    sum = ngx_etcd_unit_weights(worker, weights, &n);

    ngx_memzero(ngx_etcd_unit_count, sizeof(ngx_etcd_unit_count));
    worst = 0;

    for (t = 1; t <= times; t++) {
        k = ngx_etcd_unit_get(worker, &pick, NULL);

        if (k < 0) {
            printf("picks: none\n");
            ngx_free(weights);
            return;
        }

        ngx_etcd_unit_end(&pick, 0);
        ngx_current_msec++;

        if (n > NGX_ETCD_UNIT_EXACT) {
            continue;
        }

        for (i = 0; i < worker->table.nslots; i++) {
            early = ngx_etcd_unit_count[i] - t * weights[i] / sum;
            worst = ngx_max(worst, early);
            worst = ngx_max(worst, -early);
        }
    }

    chi = 0;

    for (i = 0; i < worker->table.nslots; i++) {
        if (weights[i] != 0) {
            early = ngx_etcd_unit_count[i] - times * weights[i] / sum;
            chi += early * early / (times * weights[i] / sum);
        }
    }

    printf("picks: %lu %.3f %.5f\n", (unsigned long) n, chi, worst);
    ngx_free(weights);
}


/* "order", or "keys" */

static void
ngx_etcd_unit_order(ngx_etcd_unit_worker_t *worker, char *name, ngx_uint_t n)
{
    u_char           buf[NGX_INT_T_LEN + 3];
    ngx_int_t        k;
    ngx_str_t        key;
    ngx_uint_t       i;
    ngx_etcd_pick_t  pick;

    ngx_memzero(ngx_etcd_unit_count, sizeof(ngx_etcd_unit_count));
    printf("%s:", name);

    for (i = 0; i < n; i++) {
        key.data = buf;
        key.len = ngx_sprintf(buf, "key%uD", (uint32_t) (i * 2654435761U))
                  - buf;

        k = ngx_etcd_unit_get(worker, &pick, name[0] == 'k' ? &key : NULL);

        if (k >= 0) {
            ngx_etcd_unit_end(&pick, 0);
        }

        printf(" %d", (int) k);
    }

    printf("\n");
}


static void
ngx_etcd_unit_open(ngx_etcd_unit_worker_t *worker, ngx_uint_t n)
{
    ngx_uint_t        got;
    ngx_etcd_pick_t  *pick;

    ngx_memzero(ngx_etcd_unit_count, sizeof(ngx_etcd_unit_count));

    for (got = 0; got < n; got++) {
        pick = ngx_palloc(ngx_etcd_unit_pool, sizeof(ngx_etcd_pick_t));

        if (pick == NULL || worker->last == NGX_ETCD_UNIT_OPEN
            || ngx_etcd_unit_get(worker, pick, NULL) < 0)
        {
            break;
        }

        worker->open[worker->last++] = pick;
    }

    printf("open: %lu\n", (unsigned long) got);
}


static void
ngx_etcd_unit_close(ngx_etcd_unit_worker_t *worker, ngx_uint_t n,
    ngx_uint_t state)
{
    ngx_uint_t  i;

    for (i = 0; i < n && worker->first < worker->last; i++) {
        ngx_etcd_unit_end(worker->open[worker->first++], state);
    }

    printf("close: %lu\n", (unsigned long) i);
}


static void
ngx_etcd_unit_retry(ngx_etcd_unit_worker_t *worker, ngx_uint_t n)
{
    ngx_uint_t             tries;
    ngx_etcd_pick_t        pick;
    ngx_peer_connection_t  pc;

    ngx_memzero(&pc, sizeof(ngx_peer_connection_t));
    pc.log = ngx_etcd_unit_log;

    printf("retry:");

    for (tries = 0; tries < n; tries++) {

        if (tries == 0) {
            printf(" %d", (int) ngx_etcd_unit_get(worker, &pick, NULL));

        } else if (ngx_etcd_pick_get(&pc, &pick) == NGX_OK) {
            printf(" %d", (int) pick.peer->index);

        } else {
            printf(" -1");
        }

        pc.tries = 1;
        ngx_etcd_pick_free(&pc, &pick, NGX_PEER_FAILED);
    }

    ngx_etcd_pick_done(&pick);
    printf("\n");
}


static void
ngx_etcd_unit_show(char *what, ngx_uint_t from, ngx_uint_t n)
{
    ngx_uint_t        i;
    ngx_etcd_slot_t  *slot;

    printf("%s:", what);

    for (i = from; i < from + n; i++) {

        if (what[2] == 'u') {
            printf(" %u", ngx_etcd_unit_count[i]);
            continue;
        }

        slot = ngx_etcd_member_set_slot(ngx_etcd_unit_set, i);
        printf(" %lu", (unsigned long) ngx_etcd_counter_get(&slot->conns,
                                                            slot->uid));
    }

    printf("\n");
}


/* the set as the slowest of all workers finds it */

static void
ngx_etcd_unit_take(ngx_uint_t n, ngx_uint_t max)
{
    ngx_int_t         conns;
    ngx_etcd_slot_t  *slot;

    slot = ngx_etcd_member_set_slot(ngx_etcd_unit_set, n);
    conns = ngx_etcd_connection_count_take(slot, NULL, slot->uid, max);

    if (conns != NGX_BUSY) {
        printf("take: %ld\n", (long) conns);

    } else {
        printf("take: busy\n");
    }
}


/* a process that has been, in the place of the worker's */

static void
ngx_etcd_unit_kill(ngx_etcd_unit_worker_t *worker)
{
    pid_t  pid;

    pid = fork();

    if (pid == 0) {
        _exit(0);
    }

    (void) waitpid(pid, NULL, 0);

    worker->zone.sh->rows[worker->zone.row].pid = pid;
    (void) ngx_etcd_connection_count_check(&ngx_etcd_unit_zone, -1);

    printf("kill: %d\n", (int) worker->zone.sh->rows[worker->zone.row].pid);
}


static void
ngx_etcd_unit_sync(ngx_etcd_unit_worker_t *worker, char *name)
{
    clock_t     begun, longest;
    ngx_int_t   rc;
    ngx_uint_t  calls;

    longest = 0;
    calls = 0;

    do {
        begun = clock();
        rc = ngx_etcd_table_sync(&worker->table);
        longest = ngx_max(longest, clock() - begun);
        calls++;
    } while (rc != NGX_OK);

    printf("%s: %lu %.0f\n", name, (unsigned long) calls,
           (double) longest / CLOCKS_PER_SEC * 1e6);
}


static void
ngx_etcd_unit_bench(ngx_etcd_unit_worker_t *worker, ngx_uint_t n)
{
    u_char           buf[NGX_INT_T_LEN];
    clock_t          begun;
    ngx_str_t        key;
    ngx_uint_t       i;
    ngx_etcd_pick_t  pick;

    begun = clock();

    for (i = 0; i < n; i++) {
        key.data = buf;
        key.len = ngx_sprintf(buf, "%ui", i) - buf;

        if (ngx_etcd_unit_get(worker, &pick, &key) < 0) {
            break;
        }

        ngx_etcd_unit_end(&pick, 0);
    }

    printf("bench: %.1f\n", (double) (clock() - begun) / CLOCKS_PER_SEC * 1e9
                             / ngx_max(i, 1));
}


static ngx_int_t
ngx_etcd_unit_run(ngx_str_t *value, ngx_uint_t nvalues)
{
    u_char                  *name;
    ngx_str_t                none;
    ngx_uint_t               i, arg[4];
    ngx_etcd_unit_worker_t  *worker;

    name = value[0].data;
    ngx_str_null(&none);
    ngx_memzero(arg, sizeof(arg));

    for (i = 1; i < ngx_min(nvalues, 4); i++) {
        arg[i] = ngx_atoi(value[i].data, value[i].len);
    }

    worker = &ngx_etcd_unit_workers[arg[1] % NGX_ETCD_UNIT_WORKERS];

    if (ngx_strcmp(name, "set") == 0) {
        return ngx_etcd_unit_do_set(arg[1], &value[2],
                                    nvalues > 3 ? &value[3] : &none);
    }

    if (ngx_strcmp(name, "add") == 0) {
        return ngx_etcd_unit_add(&ngx_etcd_unit_zone, ngx_etcd_unit_set,
                                 arg[1], arg[2], &value[3], nvalues - 3);
    }

    if (ngx_strcmp(name, "remove") == 0) {
        return ngx_etcd_unit_remove(&ngx_etcd_unit_zone, ngx_etcd_unit_set,
                                    arg[1], arg[2]);

    } else if (ngx_strcmp(name, "grow") == 0) {
        ngx_etcd_unit_grow(&ngx_etcd_unit_zone, ngx_etcd_unit_set);

    } else if (ngx_strcmp(name, "held") == 0) {
        ngx_etcd_unit_held(&ngx_etcd_unit_zone, ngx_etcd_unit_set, arg[1]);

    } else if (ngx_etcd_unit_address(&ngx_etcd_unit_zone, ngx_etcd_unit_set,
                                     ngx_etcd_unit_pool, value, arg))
    {
        /* void */

    } else if (ngx_strcmp(name, "news") == 0) {
        ngx_etcd_unit_set->state = NGX_ETCD_MEMBER_SET_SYNCED;

    } else if (ngx_strcmp(name, "time") == 0) {
        ngx_current_msec += arg[1];
        ngx_etcd_unit_time.sec += arg[1] / 1000;

    } else if (ngx_strcmp(name, "picks") == 0) {
        ngx_etcd_unit_picks(worker, arg[2]);

    } else if (ngx_strcmp(name, "order") == 0
               || ngx_strcmp(name, "keys") == 0)
    {
        ngx_etcd_unit_order(worker, (char *) name, arg[2]);

    } else if (ngx_strcmp(name, "open") == 0) {
        ngx_etcd_unit_open(worker, arg[2]);

    } else if (ngx_strcmp(name, "close") == 0) {
        ngx_etcd_unit_close(worker, arg[2],
                            nvalues > 3 ? NGX_PEER_FAILED : 0);

    } else if (ngx_strcmp(name, "retry") == 0) {
        ngx_etcd_unit_retry(worker, arg[2]);

    } else if (ngx_strcmp(name, "counts") == 0
               || ngx_strcmp(name, "conns") == 0)
    {
        ngx_etcd_unit_show((char *) name, arg[1], arg[2]);

    } else if (ngx_strcmp(name, "take") == 0) {
        ngx_etcd_unit_take(arg[1], arg[2]);

    } else if (ngx_strcmp(name, "kill") == 0) {
        ngx_etcd_unit_kill(worker);

    } else if (ngx_strcmp(name, "sync") == 0
               || ngx_strcmp(name, "stall") == 0)
    {
        ngx_etcd_unit_sync(worker, (char *) name);

    } else if (ngx_strcmp(name, "steps") == 0) {
        ngx_etcd_unit_steps(&worker->table);

    } else if (ngx_strcmp(name, "some") == 0) {
        ngx_etcd_unit_some(&worker->table, arg[2]);

    } else if (ngx_strcmp(name, "call") == 0) {
        ngx_etcd_unit_call(&worker->table,
                           nvalues > 2 ? value[2].data : (u_char *) "");

    } else if (ngx_strcmp(name, "ring") == 0) {
        ngx_etcd_unit_ring(&worker->table);

    } else if (ngx_strcmp(name, "orphan") == 0) {
        ngx_etcd_unit_rules.leader = 1;
        ngx_etcd_unit_set->object.id++;

    } else if (ngx_strcmp(name, "bench") == 0) {
        ngx_etcd_unit_bench(worker, arg[2]);

    } else {
        return NGX_ERROR;
    }

    return NGX_OK;
}


static char *
ngx_etcd_unit(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t  *value;

    ngx_etcd_unit_log = cf->log;
    ngx_etcd_unit_pool = cf->pool;

    if (ngx_etcd_unit_workers == NULL && ngx_etcd_unit_init() != NGX_OK) {
        return "cannot start";
    }

    value = cf->args->elts;

    if (ngx_etcd_unit_run(&value[1], cf->args->nelts - 1) != NGX_OK) {
        return "failed";
    }

    fflush(stdout);

    return NGX_CONF_OK;
}
