
/*
 * Copyright (C) nginx-etcd contributors
 *
 * To be preloaded into nginx: measures the turns of its event loop, and how
 * long it holds the mutex of a zone.
 *
 * A turn is what is done between two calls of epoll_wait(); a hold is what is
 * done between the module's ngx_etcd_zone_lock() and ngx_etcd_zone_unlock().
 * Appends a line with the process, "turn" or "hold", and the microseconds of
 * CPU time of its longest one so far to the file LOOP_TURNS, whenever there is
 * a longer one of LEAST_TURN or LEAST_HOLD or more.
 */


#define _GNU_SOURCE

#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>


#define LEAST_TURN  1000
#define LEAST_HOLD  50


static int      file = -1;
static pid_t    process;
static int64_t  longest_turn, longest_hold, locked;


/* nginx clears its environment, and workers may not open the file */

__attribute__((constructor))
static void
open_file(void)
{
    char  *path;

    path = getenv("LOOP_TURNS");

    if (path != NULL) {
        file = open(path, O_WRONLY|O_CREAT|O_APPEND|O_CLOEXEC, 0666);
    }
}


static int64_t
cpu_time(void)
{
    struct timespec  ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);

    return (int64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}


static void
report(const char *what, int64_t took, int64_t *longest)
{
    int   n;
    char  line[64];

    if (process != getpid()) {
        process = getpid();
        longest_turn = LEAST_TURN - 1;
        longest_hold = LEAST_HOLD - 1;
    }

    if (took <= *longest) {
        return;
    }

    *longest = took;

    n = snprintf(line, sizeof(line), "%d %s %ld\n", (int) process, what,
                 (long) took);

    if (write(file, line, n) != n) {
        file = -1;
    }
}


int
epoll_wait(int epoll, struct epoll_event *events, int n, int timeout)
{
    int             rc;
    static int    (*wait)(int, struct epoll_event *, int, int);
    static pid_t    pid;
    static int64_t  since;

    if (pid == getpid()) {
        report("turn", cpu_time() - since, &longest_turn);

    } else {
        pid = getpid();
        wait = (int (*)(int, struct epoll_event *, int, int))
               dlsym(RTLD_NEXT, "epoll_wait");
    }

    rc = wait(epoll, events, n, timeout);
    since = cpu_time();

    return rc;
}


intptr_t
ngx_etcd_zone_lock(void *zone)
{
    intptr_t         rc;
    static intptr_t  (*lock)(void *);

    if (lock == NULL) {
        lock = (intptr_t (*)(void *)) dlsym(RTLD_NEXT, "ngx_etcd_zone_lock");
    }

    rc = lock(zone);
    locked = cpu_time();

    return rc;
}


void
ngx_etcd_zone_unlock(void *zone)
{
    int64_t      took;
    static void  (*unlock)(void *);

    if (unlock == NULL) {
        unlock = (void (*)(void *)) dlsym(RTLD_NEXT, "ngx_etcd_zone_unlock");
    }

    took = cpu_time() - locked;
    unlock(zone);
    report("hold", took, &longest_hold);
}
