
/*
 * Copyright (C) nginx-etcd contributors
 *
 * So many requests by so many clients at a time, each of which asks again when
 * it was answered, or so many a second:
 *
 *     clients PORT PATH CLIENTS REQUESTS keep|close [RATE]
 *
 * prints requests a second, and the times of requests in microseconds: p50 and
 * p99.  With "close" each request has a connection of its own, which is what
 * ends the answer.  Anything but status 200 ends the run.
 *
 * With RATE a request takes from the time when it is due, whoever is late.
 */


#define _GNU_SOURCE           /* strcasestr() */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>


#define CLIENTS_MAX     1024
#define CLIENTS_BUFFER  4096
#define CLIENTS_WAIT    10000        /* ms without any event */


typedef struct {
    int        fd;
    size_t     got;
    uint64_t   begun;                /* us */
    char       buffer[CLIENTS_BUFFER];
} client_t;


static client_t            clients[CLIENTS_MAX], *idle[CLIENTS_MAX];
static struct sockaddr_in  server;
static char                request[1024];
static size_t              request_len;
static uint32_t           *times;
static uint64_t            start, pace;     /* us, ns */
static unsigned long       total, due, begun, ended, nidle;
static int                 keep, ep, timer;


static void
die(const char *what)
{
    fprintf(stderr, "clients: %s: %s\n", what, strerror(errno));
    exit(1);
}


static uint64_t
now(void)
{
    struct timespec  ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);

    return (uint64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}


static void
client_connect(client_t *client)
{
    int                 one;
    struct epoll_event  event;

    one = 1;
    client->fd = socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, 0);

    if (client->fd == -1
        || connect(client->fd, (struct sockaddr *) &server, sizeof(server))
           == -1
        || setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one))
           == -1)
    {
        die("connect");
    }

    event.events = EPOLLIN;
    event.data.ptr = client;

    if (epoll_ctl(ep, EPOLL_CTL_ADD, client->fd, &event) == -1) {
        die("epoll_ctl");
    }
}


/* the next request, unless all that are due were made */

static void
client_ask(client_t *client)
{
    if (begun == due) {
        idle[nidle++] = client;
        return;
    }

    begun++;
    client->got = 0;
    client->begun = pace ? start + begun * pace / 1000 : now();

    if (client->fd == -1) {
        client_connect(client);
    }

    if (write(client->fd, request, request_len) != (ssize_t) request_len) {
        die("write");
    }
}


/* the answer is complete */

static void
client_done(client_t *client)
{
    if (strncmp(client->buffer, "HTTP/1.1 200 ", 13) != 0) {
        errno = EPROTO;
        die("not answered by 200");
    }

    times[ended++] = now() - client->begun;
    client_ask(client);
}


/* 1: all that the head has promised is there */

static int
client_complete(client_t *client)
{
    char  *end, *length;

    client->buffer[client->got] = '\0';
    end = strstr(client->buffer, "\r\n\r\n");
    length = strcasestr(client->buffer, "\r\nContent-Length: ");

    return end != NULL && length != NULL && length < end
           && client->got >= (size_t) (end + 4 - client->buffer)
                             + strtoul(length + 18, NULL, 10);
}


static void
client_read(client_t *client)
{
    ssize_t  n;

    n = recv(client->fd, client->buffer + client->got,
             CLIENTS_BUFFER - 1 - client->got, MSG_DONTWAIT);

    if (n == -1 && errno == EAGAIN) {
        return;
    }

    if (n > 0) {
        client->got += n;

        if (keep && client_complete(client)) {
            client_done(client);
        }

        return;
    }

    if (n == -1 || keep) {
        die("read");
    }

    close(client->fd);
    client->fd = -1;
    client->buffer[client->got] = '\0';
    client_done(client);
}


static void
tick(void)
{
    uint64_t  n;

    if (read(timer, &n, sizeof(n)) != sizeof(n)) {
        die("timerfd");
    }

    due = (n < total - due) ? due + n : total;

    while (nidle != 0 && begun < due) {
        client_ask(idle[--nidle]);
    }
}


static void
start_ticks(void)
{
    struct epoll_event  event;
    struct itimerspec   its;

    its.it_value.tv_sec = pace / 1000000000;
    its.it_value.tv_nsec = pace % 1000000000;
    its.it_interval = its.it_value;

    event.events = EPOLLIN;
    event.data.ptr = NULL;

    timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);

    if (timer == -1
        || epoll_ctl(ep, EPOLL_CTL_ADD, timer, &event) == -1
        || timerfd_settime(timer, 0, &its, NULL) == -1)
    {
        die("timerfd");
    }
}


static int
compare(const void *one, const void *two)
{
    uint32_t  a, b;

    a = *(const uint32_t *) one;
    b = *(const uint32_t *) two;

    return (a > b) - (a < b);
}


static void
run(unsigned long n)
{
    int                 events, i;
    unsigned long       k;
    struct epoll_event  list[64];

    start = now();

    if (pace) {
        start_ticks();

    } else {
        due = total;
    }

    for (k = 0; k < n; k++) {
        clients[k].fd = -1;
        client_ask(&clients[k]);
    }

    while (ended < total) {
        events = epoll_wait(ep, list, 64, CLIENTS_WAIT);

        if (events <= 0) {
            die("epoll_wait");
        }

        for (i = 0; i < events; i++) {

            if (list[i].data.ptr == NULL) {
                tick();
                continue;
            }

            client_read(list[i].data.ptr);
        }
    }
}


int
main(int argc, char **argv)
{
    uint64_t       took;
    unsigned long  n;

    if (argc != 6 && argc != 7) {
        errno = EINVAL;
        die("arguments");
    }

    server.sin_family = AF_INET;
    server.sin_port = htons(atoi(argv[1]));
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    n = strtoul(argv[3], NULL, 10);
    total = strtoul(argv[4], NULL, 10);
    keep = (strcmp(argv[5], "keep") == 0);
    pace = (argc == 7) ? 1000000000 / strtoul(argv[6], NULL, 10) : 0;

    request_len = snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\n"
                           "Host: localhost\r\n%s\r\n", argv[2],
                           keep ? "" : "Connection: close\r\n");

    times = calloc(total, sizeof(uint32_t));
    ep = epoll_create1(EPOLL_CLOEXEC);

    if (n == 0 || n > CLIENTS_MAX || total < n || times == NULL || ep == -1
        || request_len >= sizeof(request))
    {
        errno = EINVAL;
        die("arguments");
    }

    run(n);
    took = now() - start;

    qsort(times, total, sizeof(uint32_t), compare);

    printf("%.1f %u %u\n", total * 1e6 / took, times[total / 2],
           times[total - 1 - total / 100]);

    return 0;
}
