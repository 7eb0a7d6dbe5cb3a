
/*
 * Copyright (C) nginx-etcd contributors
 *
 * To be preloaded into nginx: measures the turns of its event loop.
 *
 * A turn is what is done between two calls of epoll_wait().  Appends a line
 * with the process and the microseconds of CPU time of its longest turn so far
 * to the file LOOP_TURNS, whenever there is a longer one of LEAST or more.
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


#define LEAST  1000


static int  file = -1;


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
report(long took)
{
    int   n;
    char  line[64];

    n = snprintf(line, sizeof(line), "%d %ld\n", (int) getpid(), took);

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
    static int64_t  since, longest = LEAST - 1;

    if (pid == getpid()) {
        if (cpu_time() - since > longest) {
            longest = cpu_time() - since;
            report(longest);
        }

    } else {
        pid = getpid();
        wait = (int (*)(int, struct epoll_event *, int, int))
               dlsym(RTLD_NEXT, "epoll_wait");
    }

    rc = wait(epoll, events, n, timeout);
    since = cpu_time();

    return rc;
}
