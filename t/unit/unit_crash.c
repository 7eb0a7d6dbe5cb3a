
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A process that is killed at any instruction, as a directive:
 *
 *     etcd_crash POINTS [recover|unlock|retire];
 *
 * Each operation of unit_crash_ops.c runs in a zone that may not be written.
 * An instruction that writes it faults, is let through alone, and is a point:
 * what the zone is then is what a process leaves that is killed there.  A copy
 * of the process (fork) has the zone at the same addresses, and does what the
 * next owner does, and what other processes see.
 *
 * The next owner may be killed likewise: then a point is one of the first and
 * one of the second process.
 *
 * About POINTS of all are tried, 0 meaning all of them: first those in the code
 * of the modules, then those in nginx's allocator, those in memcpy() and the
 * like, and those of two processes, spread evenly over the ones of a kind.  The
 * second parameter takes something away from the next owner: this must be
 * found.
 *
 * Writes "crash: POINTS TRIED TWICE FAULTS ALLOCATOR", the third number being
 * tried points of two processes, "lost: OPERATION BYTES" for
 * the most bytes that a kill in that operation takes from the zone for good,
 * and a line "fault: OPERATION POINT.POINT FILE+OFFSET: REASON" for each fault.
 * Those of a process that was killed in nginx's allocator, which cannot do
 * anything about it, are counted apart, and begin with "allocator:"; what they
 * lose is not counted.  Steps are those of an x86-64.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_hash_table.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include "test_module.h"
#include "unit_crash.h"


#define NGX_ETCD_CRASH_POINTS  100000       /* of all operations */
#define NGX_ETCD_CRASH_OWNER   320          /* of a next owner, about */
#define NGX_ETCD_CRASH_WRITE   64           /* bytes by one instruction */
#define NGX_ETCD_CRASH_DEAD    2000000000   /* no process has that number */
#define NGX_ETCD_CRASH_HANGS   30           /* seconds */
#define NGX_ETCD_CRASH_ALLOCATOR  2         /* exit code: it is at fault */
#define NGX_ETCD_CRASH_TRAP    0x100        /* of the flags of the processor */


/* the worst first */

typedef enum {
    NGX_ETCD_CRASH_MODULE = 0,
    NGX_ETCD_CRASH_NGINX,
    NGX_ETCD_CRASH_LIBRARY,
    NGX_ETCD_CRASH_KINDS
} ngx_etcd_crash_kind_e;


/* shared by all processes of the test */

typedef struct {
    ngx_uint_t                 npoints;
    ngx_uint_t                 kinds[NGX_ETCD_CRASH_KINDS];
    u_char                     kind[NGX_ETCD_CRASH_POINTS];
    u_char                     chosen[NGX_ETCD_CRASH_POINTS];

    ngx_uint_t                 point;        /* the next one */
    ngx_uint_t                 every;        /* so many of two processes one
                                                is tried; 0: none */
    ngx_uint_t                 tried;
    ngx_uint_t                 twice;
    ngx_uint_t                 faults;
    ngx_uint_t                 allocator;
    size_t                     lost;

    ngx_etcd_crash_state_t     before;
    ngx_etcd_crash_state_t     after;
} ngx_etcd_crash_shared_t;


static char *ngx_etcd_crash_command(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf);


static ngx_command_t  ngx_etcd_crash_commands[] = {

    { ngx_string("etcd_crash"),
      NGX_MAIN_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE12,
      ngx_etcd_crash_command,
      0,
      0,
      NULL },

      ngx_null_command
};


test_module(ngx_etcd_unit_crash_module, ngx_etcd_crash_commands);


ngx_etcd_crash_t                   ngx_etcd_crash;

static ngx_etcd_crash_shared_t    *ngx_etcd_crash_shared;
static const ngx_etcd_crash_op_t  *ngx_etcd_crash_current;
static u_char                     *ngx_etcd_crash_zone;
static ngx_log_t                  *ngx_etcd_crash_log;
static ngx_uint_t                  ngx_etcd_crash_trying;
static ngx_uint_t                  ngx_etcd_crash_first;
static ngx_uint_t                  ngx_etcd_crash_second;
static ngx_uint_t                  ngx_etcd_crash_slab;

static u_char                     *ngx_etcd_crash_written;
static u_char                      ngx_etcd_crash_was[NGX_ETCD_CRASH_WRITE];
static void                       *ngx_etcd_crash_at;


/* the instruction at which the process was killed, and the fault */

static void
ngx_etcd_crash_report(char *reason)
{
    char     *file;
    size_t    offset;
    Dl_info   info;

    file = "?";
    offset = 0;

    if (dladdr(ngx_etcd_crash_at, &info) != 0 && info.dli_fname != NULL) {
        file = (char *) info.dli_fname;
        offset = (u_char *) ngx_etcd_crash_at - (u_char *) info.dli_fbase;
    }

    printf("%s: %s %lu.%lu %s+0x%lx: %s\n",
           ngx_etcd_crash_slab ? "allocator" : "fault",
           ngx_etcd_crash_current->name, (unsigned long) ngx_etcd_crash_first,
           (unsigned long) ngx_etcd_crash_second, file,
           (unsigned long) offset, reason);

    fflush(stdout);
}


void
ngx_etcd_crash_fault(const char *fmt, ...)
{
    char     reason[512];
    va_list  args;

    va_start(args, fmt);
    (void) vsnprintf(reason, sizeof(reason), fmt, args);
    va_end(args);

    ngx_etcd_crash_report(reason);

    _exit(ngx_etcd_crash_slab ? NGX_ETCD_CRASH_ALLOCATOR : 1);
}


static void
ngx_etcd_crash_guard(int prot)
{
    if (mprotect(ngx_etcd_crash_zone, NGX_ETCD_CRASH_ZONE, prot) == -1) {
        _exit(3);
    }
}


/* a copy of the process is what is left of it, and then another one */

static void
ngx_etcd_crash_fork(void (*handler)(void))
{
    int       status;
    char      reason[64];
    pid_t     pid;
    sigset_t  set;

    pid = fork();

    if (pid == 0) {
        sigemptyset(&set);
        (void) sigprocmask(SIG_SETMASK, &set, NULL);
        (void) alarm(NGX_ETCD_CRASH_HANGS);

        handler();

        _exit(0);
    }

    if (pid == -1 || waitpid(pid, &status, 0) != pid) {
        perror("fork() or waitpid()");
        _exit(3);
    }

    if (status == 0) {
        return;
    }

    if (WIFSIGNALED(status)) {
        (void) snprintf(reason, sizeof(reason),
                        "the next owner ends by signal %d", WTERMSIG(status));
        ngx_etcd_crash_report(reason);
    }

    if (WIFEXITED(status) ? WEXITSTATUS(status) == NGX_ETCD_CRASH_ALLOCATOR
                          : ngx_etcd_crash_slab)
    {
        ngx_etcd_crash_shared->allocator++;

    } else {
        ngx_etcd_crash_shared->faults++;
    }
}


/*
 * nginx's allocator alerts of what was freed twice, and goes on: whoever freed
 * it is at fault, even one that was killed within the allocator
 */

static void
ngx_etcd_crash_alert(ngx_log_t *log, ngx_uint_t level, u_char *buf, size_t len)
{
    if (ngx_strnstr(buf, "is already free", len) != NULL) {
        ngx_etcd_crash_slab = 0;
    }

    ngx_etcd_crash_fault("%.*s", (int) len - 1, buf);
}


static void
ngx_etcd_crash_try(void)
{
    size_t            lost;
    static ngx_log_t  log;

    log.log_level = NGX_LOG_ALERT;
    log.writer = ngx_etcd_crash_alert;
    ngx_cycle->log = &log;

    (void) signal(SIGSEGV, SIG_DFL);
    (void) signal(SIGTRAP, SIG_DFL);

    ngx_etcd_crash_guard(PROT_READ|PROT_WRITE);

    ngx_pid = getpid();
    lost = ngx_etcd_crash_check() / (1 + ngx_etcd_crash.twice);

    if (!ngx_etcd_crash_slab && lost > ngx_etcd_crash_shared->lost) {
        ngx_etcd_crash_shared->lost = lost;
    }
}


/* the next owner, which is killed, too */

static void
ngx_etcd_crash_again(void)
{
    ngx_etcd_crash.twice = 1;

    ngx_etcd_crash_guard(PROT_READ|PROT_WRITE);
    ngx_etcd_crash_unlock();
    ngx_etcd_crash_guard(PROT_READ);

    ngx_etcd_crash_take_over();
    ngx_etcd_crash_catch_up();
}


static ngx_etcd_crash_kind_e
ngx_etcd_crash_kind(void)
{
    Dl_info      info;
    const char  *name;

    if (dladdr(ngx_etcd_crash_at, &info) == 0 || info.dli_fname == NULL) {
        return NGX_ETCD_CRASH_LIBRARY;
    }

    name = strrchr(info.dli_fname, '/');
    name = (name != NULL) ? name + 1 : info.dli_fname;

    if (strncmp(name, "ngx_", 4) == 0) {
        return NGX_ETCD_CRASH_MODULE;
    }

    return (strncmp(name, "nginx", 5) == 0) ? NGX_ETCD_CRASH_NGINX
                                            : NGX_ETCD_CRASH_LIBRARY;
}


/* of the process that is killed first, or of the next owner */

static void
ngx_etcd_crash_reached_first(ngx_etcd_crash_kind_e kind)
{
    ngx_uint_t                point;
    ngx_etcd_crash_shared_t  *shared;

    shared = ngx_etcd_crash_shared;
    point = shared->point++;

    if (point == NGX_ETCD_CRASH_POINTS) {
        _exit(3);
    }

    ngx_etcd_crash_first = point;

    if (!ngx_etcd_crash_trying) {
        shared->kind[point] = kind;
        shared->kinds[kind]++;
        shared->npoints++;
        return;
    }

    if (shared->chosen[point]) {
        shared->tried++;
        ngx_etcd_crash_fork(ngx_etcd_crash_try);
    }

    if (shared->every != 0) {
        ngx_etcd_crash_fork(ngx_etcd_crash_again);
    }
}


static void
ngx_etcd_crash_reached_second(void)
{
    ngx_uint_t  every;

    every = ngx_etcd_crash_shared->every;

    if (++ngx_etcd_crash_second % every == ngx_etcd_crash_first % every) {
        ngx_etcd_crash_shared->twice++;
        ngx_etcd_crash_fork(ngx_etcd_crash_try);
    }
}


static void
ngx_etcd_crash_reached(void)
{
    ngx_uint_t             slab;
    ngx_etcd_crash_kind_e  kind;

    kind = ngx_etcd_crash_kind();

    slab = ngx_etcd_crash_slab;
    ngx_etcd_crash_slab |= (kind == NGX_ETCD_CRASH_NGINX);

    if (ngx_etcd_crash.twice) {
        ngx_etcd_crash_reached_second();

    } else {
        ngx_etcd_crash_reached_first(kind);
    }

    ngx_etcd_crash_slab = slab;
}


/* an instruction is about to write the zone */

static void
ngx_etcd_crash_write(int sig, siginfo_t *info, void *data)
{
    ucontext_t  *context = data;

    u_char  *last;
    size_t   len;

    ngx_etcd_crash_written = info->si_addr;
    last = ngx_etcd_crash_zone + NGX_ETCD_CRASH_ZONE;

    if (ngx_etcd_crash_written < ngx_etcd_crash_zone
        || ngx_etcd_crash_written >= last)
    {
        (void) signal(SIGSEGV, SIG_DFL);
        return;
    }

    len = ngx_min(NGX_ETCD_CRASH_WRITE, last - ngx_etcd_crash_written);
    ngx_memcpy(ngx_etcd_crash_was, ngx_etcd_crash_written, len);
    ngx_etcd_crash_at = (void *) context->uc_mcontext.gregs[REG_RIP];

    ngx_etcd_crash_guard(PROT_READ|PROT_WRITE);

    context->uc_mcontext.gregs[REG_EFL] |= NGX_ETCD_CRASH_TRAP;
}


/* the instruction has written; a write that changes nothing is no point */

static void
ngx_etcd_crash_wrote(int sig, siginfo_t *info, void *data)
{
    ucontext_t  *context = data;

    size_t  len;

    context->uc_mcontext.gregs[REG_EFL] &= ~NGX_ETCD_CRASH_TRAP;

    ngx_etcd_crash_guard(PROT_READ);

    len = ngx_min(NGX_ETCD_CRASH_WRITE,
                  ngx_etcd_crash_zone + NGX_ETCD_CRASH_ZONE
                  - ngx_etcd_crash_written);

    if (ngx_memcmp(ngx_etcd_crash_was, ngx_etcd_crash_written, len) != 0) {
        ngx_etcd_crash_reached();
    }
}


static void
ngx_etcd_crash_watch(void)
{
    struct sigaction  sa;

    ngx_memzero(&sa, sizeof(struct sigaction));
    sigemptyset(&sa.sa_mask);
    sa.sa_flags = SA_SIGINFO;

    sa.sa_sigaction = ngx_etcd_crash_write;
    (void) sigaction(SIGSEGV, &sa, NULL);

    sa.sa_sigaction = ngx_etcd_crash_wrote;
    (void) sigaction(SIGTRAP, &sa, NULL);

    ngx_etcd_crash_guard(PROT_READ);
}


/* the zone as the operation would leave it, if nobody killed it */

static void
ngx_etcd_crash_whole(void)
{
    int    status;
    pid_t  pid;

    ngx_etcd_crash_look(&ngx_etcd_crash_shared->before);

    pid = fork();

    if (pid == 0) {
        ngx_etcd_crash_current->run();
        ngx_pid = getpid();
        ngx_etcd_crash_look(&ngx_etcd_crash_shared->after);
        ngx_etcd_crash_shared->after.room = ngx_etcd_crash_fill();
        _exit(0);
    }

    if (pid == -1 || waitpid(pid, &status, 0) != pid || status != 0) {
        printf("fault: %s: it fails by itself\n",
               ngx_etcd_crash_current->name);
        ngx_etcd_crash_shared->faults++;
        fflush(stdout);
        _exit(3);
    }
}


/* the operation in a process of its own */

static ngx_int_t
ngx_etcd_crash_run(const ngx_etcd_crash_op_t *op)
{
    int    status;
    pid_t  pid;

    ngx_etcd_crash_current = op;
    ngx_etcd_crash_shared->lost = 0;

    fflush(stdout);
    pid = fork();

    if (pid == 0) {
        if (ngx_etcd_crash_world(ngx_etcd_crash_zone, ngx_etcd_crash_log)
            != NGX_OK)
        {
            _exit(3);
        }

        op->prepare();
        ngx_etcd_crash_whole();

        ngx_etcd_crash_watch();
        op->run();

        _exit(0);
    }

    if (pid == -1 || waitpid(pid, &status, 0) != pid || status != 0) {
        return NGX_ERROR;
    }

    if (ngx_etcd_crash_shared->lost != 0) {
        printf("lost: %s %lu\n", op->name,
               (unsigned long) ngx_etcd_crash_shared->lost);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_etcd_crash_all(void)
{
    ngx_uint_t  i;

    ngx_etcd_crash_shared->point = 0;

    for (i = 0; ngx_etcd_crash_ops[i].name != NULL; i++) {
        if (ngx_etcd_crash_run(&ngx_etcd_crash_ops[i]) != NGX_OK) {
            printf("crash: %s cannot be run\n", ngx_etcd_crash_ops[i].name);
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/* so many, the worst kinds first, spread over those of one kind */

static void
ngx_etcd_crash_choose(ngx_uint_t points)
{
    ngx_uint_t                i, kind, seen, n;
    ngx_etcd_crash_shared_t  *shared;

    shared = ngx_etcd_crash_shared;

    if (points == 0) {
        points = shared->npoints;
        shared->every = 1;

    } else if (points > shared->npoints) {
        shared->every = ngx_max(shared->npoints * NGX_ETCD_CRASH_OWNER
                                / (points - shared->npoints), 1);
    }

    for (kind = 0; kind < NGX_ETCD_CRASH_KINDS; kind++) {
        n = ngx_min(points, shared->kinds[kind]);
        points -= n;
        seen = 0;

        for (i = 0; i < shared->npoints; i++) {
            if (shared->kind[i] != kind) {
                continue;
            }

            seen++;
            shared->chosen[i] = (seen * n / shared->kinds[kind]
                                 != (seen - 1) * n / shared->kinds[kind]);
        }
    }
}


static void *
ngx_etcd_crash_map(size_t size, int flags)
{
    void  *p;

    p = mmap(NULL, size, PROT_READ|PROT_WRITE, MAP_ANON|flags, -1, 0);

    return (p == MAP_FAILED) ? NULL : p;
}


static char *
ngx_etcd_crash_command(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_int_t                 points;
    ngx_str_t                *value;
    ngx_etcd_crash_shared_t  *shared;

    value = cf->args->elts;
    points = ngx_atoi(value[1].data, value[1].len);

    /* processes have copies of the zone, and the rest is theirs together */

    ngx_etcd_crash_zone = ngx_etcd_crash_map(NGX_ETCD_CRASH_ZONE, MAP_PRIVATE);
    shared = ngx_etcd_crash_map(sizeof(ngx_etcd_crash_shared_t),
                                MAP_SHARED|MAP_NORESERVE);

    /* both times with the same hashes */

    if (points == NGX_ERROR || ngx_etcd_crash_zone == NULL || shared == NULL
        || ngx_etcd_siphash_init(cf->log) != NGX_OK)
    {
        return "cannot start";
    }

    ngx_etcd_crash_shared = shared;
    ngx_etcd_crash_log = cf->log;
    ngx_etcd_crash.before = &shared->before;
    ngx_etcd_crash.after = &shared->after;
    ngx_etcd_crash.broken = (cf->args->nelts > 2) ? (char *) value[2].data
                                                  : "";
    ngx_etcd_crash.victim = NGX_ETCD_CRASH_DEAD;
    ngx_etcd_crash.other = getpid();

    /* a first time to count the points */

    if (ngx_etcd_crash_all() != NGX_OK) {
        return "failed";
    }

    ngx_etcd_crash_choose(points);
    ngx_etcd_crash_trying = 1;
    shared->faults = 0;
    shared->allocator = 0;

    if (ngx_etcd_crash_all() != NGX_OK) {
        return "failed";
    }

    printf("crash: %lu %lu %lu %lu %lu\n", (unsigned long) shared->npoints,
           (unsigned long) shared->tried, (unsigned long) shared->twice,
           (unsigned long) shared->faults, (unsigned long) shared->allocator);
    fflush(stdout);

    return NGX_CONF_OK;
}
