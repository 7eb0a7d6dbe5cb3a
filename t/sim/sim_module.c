
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The simulation as a directive of an nginx that is only to test its
 * configuration:
 *
 *     etcd_sim FIRST COUNT WORKERS TRACE;
 *
 * Runs COUNT seeds from FIRST on, by so many processes; with TRACE, 1, one
 * process says what happens.  Writes a line for each seed that fails, and one
 * about all.
 */


#include "test_module.h"
#include "sim_world.h"
#include <ngx_etcd_hash_table.h>
#include <sys/wait.h>
#include <time.h>


/* of one worker: so many seeds that fail are enough */
#define SIM_FAILURES  20

/* seconds for a seed, which takes a millisecond */
#define SIM_ALARM     30


static char *sim_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
static void sim_signal(int signo);
static int sim_worker(uint64_t first, uint64_t count, uint64_t every,
    ngx_uint_t trace);


static ngx_command_t  sim_commands[] = {

    { ngx_string("etcd_sim"),
      NGX_MAIN_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE4,
      sim_directive,
      0,
      0,
      NULL },

      ngx_null_command
};


test_module(sim_module, sim_commands);


static char *
sim_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    int         status;
    char       *rc;
    pid_t       pid;
    uint64_t    first, count;
    ngx_int_t   workers, i;
    ngx_str_t  *value;

    value = cf->args->elts;

    first = (uint64_t) ngx_atoof(value[1].data, value[1].len);
    count = (uint64_t) ngx_atoof(value[2].data, value[2].len);
    workers = ngx_atoi(value[3].data, value[3].len);

    if (ngx_etcd_siphash_init(cf->log) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    fflush(stdout);

    for (i = 0; i < workers; i++) {
        pid = fork();

        if (pid == -1) {
            return NGX_CONF_ERROR;
        }

        if (pid == 0) {
            status = sim_worker(first + i, count, workers,
                                value[4].data[0] == '1');
            fflush(stdout);
            _exit(status);
        }
    }

    rc = NGX_CONF_OK;

    while (wait(&status) != -1) {
        if (status != 0) {
            rc = NGX_CONF_ERROR;

            if (WIFSIGNALED(status)) {
                printf("sim: a worker died of signal %d\n", WTERMSIG(status));
            }
        }
    }

    printf("sim: %lu seeds\n", (unsigned long) count);
    fflush(stdout);

    return rc;
}


/*
 * The seed is to be known, whatever else is broken; and the invariant, if the
 * worker dies when all is given back afterwards.
 */

static void
sim_signal(int signo)
{
    if (sim.failed != NULL) {
        printf("sim: seed %lu failed at step %lu: %s: %s\n",
               (unsigned long) sim.seed, (unsigned long) sim.step, sim.failed,
               sim.reason);
        fflush(stdout);
        _exit(2);
    }

    printf("sim: seed %lu failed at step %lu: signal %d: %s\n",
           (unsigned long) sim.seed, (unsigned long) sim.step, signo,
           (signo == SIGALRM) ? "a handler does not return"
                              : "the worker has died");
    fflush(stdout);
    _exit(2);
}


static int
sim_worker(uint64_t first, uint64_t count, uint64_t every, ngx_uint_t trace)
{
    uint64_t    seed, steps;
    ngx_uint_t  failures;

    steps = 0;
    failures = 0;

    (void) signal(SIGALRM, sim_signal);
    (void) signal(SIGSEGV, sim_signal);
    (void) signal(SIGABRT, sim_signal);

    for (seed = first; seed < first + count; seed += every) {

        /* a handler that does not return ends the worker */

        (void) alarm(SIM_ALARM);

        if (sim_run(seed, trace) == NGX_OK) {
            steps += sim.step;
            continue;
        }

        printf("sim: seed %lu failed at step %lu: %s: %s\n",
               (unsigned long) seed, (unsigned long) sim.step, sim.failed,
               sim.reason);
        fflush(stdout);

        if (++failures == SIM_FAILURES) {
            break;
        }
    }

    (void) alarm(0);

    printf("sim: %lu steps in %.1f s\n", (unsigned long) steps,
           (double) clock() / CLOCKS_PER_SEC);

    return failures != 0;
}
