
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Clients that write at a steady rate, however long the answers take:
 *
 *     steady PORT RATE SECONDS [get]
 *
 * until SIGTERM, and not for longer than SECONDS.  One half of the requests is
 * sent over a new connection each, the other half over connections that are
 * kept; one half of both are POST, the other PUT, to /1, /2 and so on.  With
 * "get" all are GET.
 *
 * Prints a line per request when it is over: its number, the method, when it
 * was sent and when it ended (of the clock of the day, in seconds), and the
 * status of the answer; 0: there was none.
 */


#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>


#define MAX_CLIENTS  16384
#define BUFFER       4096
#define BURST        64               /* requests, then answers */
#define SECOND       1000000000LL
#define PATIENCE     (20 * SECOND)    /* for the last answers, in ns */


typedef struct client_s  client_t;

struct client_s {
    int        fd;
    int        kept;
    int        busy;
    long       number;
    int64_t    begun;
    size_t     out_len;
    size_t     out_sent;
    size_t     in_len;
    char       out[256];
    char       in[BUFFER];
    client_t  *next;                  /* of those that are kept and idle */
};


static int                    epoll;
static int                    busy, get;
static client_t              *idle;
static struct sockaddr_in     server;
static volatile sig_atomic_t  stopped;


static void
die(char *what)
{
    perror(what);
    exit(1);
}


static void
stop(int signo)
{
    stopped = 1;
}


static int64_t
now(clockid_t clock)
{
    struct timespec  ts;

    clock_gettime(clock, &ts);

    return ts.tv_sec * SECOND + ts.tv_nsec;
}


static char *
method_of(long number)
{
    if (get) {
        return "GET";
    }

    return (number & 2) ? "POST" : "PUT";
}


static void
close_client(client_t *client)
{
    client_t  **p;

    for (p = &idle; *p != NULL; p = &(*p)->next) {
        if (*p == client) {
            *p = client->next;
            break;
        }
    }

    close(client->fd);
    free(client);
}


static void
ended(client_t *client, int status)
{
    printf("%ld %s %.6f %.6f %d\n", client->number, method_of(client->number),
           (double) client->begun / SECOND,
           (double) now(CLOCK_REALTIME) / SECOND, status);

    busy--;

    if (status == 0 || !client->kept
        || strcasestr(client->in, "\r\nConnection: close\r\n") != NULL)
    {
        close_client(client);
        return;
    }

    client->busy = 0;
    client->next = idle;
    idle = client;
}


static client_t *
connect_client(int kept)
{
    int                  on;
    client_t            *client;
    struct epoll_event   event;

    client = calloc(1, sizeof(client_t));
    if (client == NULL) {
        die("calloc");
    }

    client->kept = kept;
    client->fd = socket(AF_INET, SOCK_STREAM|SOCK_NONBLOCK|SOCK_CLOEXEC, 0);

    if (client->fd == -1) {
        die("socket");
    }

    on = 1;
    setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(int));

    if (connect(client->fd, (struct sockaddr *) &server, sizeof(server)) == -1
        && errno != EINPROGRESS)
    {
        die("connect");
    }

    event.events = EPOLLIN|EPOLLOUT|EPOLLRDHUP|EPOLLET;
    event.data.ptr = client;

    if (epoll_ctl(epoll, EPOLL_CTL_ADD, client->fd, &event) == -1) {
        die("epoll_ctl");
    }

    return client;
}


/* Bytes that cannot be sent yet are sent when the connection is writable. */

static void
send_rest(client_t *client)
{
    ssize_t  n;

    while (client->out_sent < client->out_len) {
        n = send(client->fd, client->out + client->out_sent,
                 client->out_len - client->out_sent, MSG_NOSIGNAL);

        if (n == -1) {
            return;
        }

        client->out_sent += n;
    }
}


static void
write_one(long number)
{
    client_t  *client;

    if ((number & 1) && idle != NULL) {
        client = idle;
        idle = client->next;

    } else {
        client = connect_client(number & 1);
    }

    client->number = number;
    client->begun = now(CLOCK_REALTIME);
    client->busy = 1;
    client->in_len = 0;
    client->out_sent = 0;
    client->out_len = snprintf(client->out, sizeof(client->out),
                               "%s /%ld HTTP/1.1\r\nHost: localhost\r\n"
                               "%s%s\r\n%s", method_of(number), number,
                               get ? "" : "Content-Length: 2\r\n",
                               client->kept ? "" : "Connection: close\r\n",
                               get ? "" : "ok");
    busy++;

    send_rest(client);
}


/* the status of a whole answer, 0: there is more to come */

static int
status_of(client_t *client)
{
    char    *body, *length;
    size_t   n;

    client->in[client->in_len] = '\0';

    body = strstr(client->in, "\r\n\r\n");
    if (body == NULL) {
        return 0;
    }

    length = strcasestr(client->in, "\r\nContent-Length:");
    n = (length != NULL) ? strtoul(length + 17, NULL, 10) : 0;

    if (strlen(body + 4) < n) {
        return 0;
    }

    return atoi(client->in + sizeof("HTTP/1.1"));
}


static void
receive(client_t *client)
{
    int      status;
    ssize_t  n;

    for ( ;; ) {
        n = recv(client->fd, client->in + client->in_len,
                 BUFFER - 1 - client->in_len, 0);

        if (n == -1 && errno == EAGAIN) {
            return;
        }

        if (n <= 0) {
            break;
        }

        client->in_len += n;

        status = client->busy ? status_of(client) : 0;

        if (status != 0) {
            ended(client, status);
            return;
        }
    }

    if (client->busy) {
        ended(client, 0);

    } else {
        close_client(client);
    }
}


static void
look(int ms)
{
    int                 i, n;
    struct epoll_event  events[256];

    n = epoll_wait(epoll, events, 256, ms);

    for (i = 0; i < n; i++) {
        send_rest(events[i].data.ptr);
        receive(events[i].data.ptr);
    }
}


static void
write_all(long rate, int64_t length)
{
    int      n;
    long     number;
    int64_t  begun, due;

    number = 0;
    begun = now(CLOCK_MONOTONIC);

    while (!stopped && now(CLOCK_MONOTONIC) - begun < length) {
        due = (now(CLOCK_MONOTONIC) - begun) / (SECOND / rate);

        for (n = 0; number < due && n < BURST && busy < MAX_CLIENTS; n++) {
            write_one(++number);
        }

        look(number < due && busy < MAX_CLIENTS ? 0 : 1);
    }

    begun = now(CLOCK_MONOTONIC);

    while (busy > 0 && now(CLOCK_MONOTONIC) - begun < PATIENCE) {
        look(10);
    }
}


int
main(int argc, char **argv)
{
    struct rlimit     limit;
    struct sigaction  action;

    if (argc != 4 && argc != 5) {
        fprintf(stderr, "usage: steady PORT RATE SECONDS [get]\n");
        return 2;
    }

    get = (argc == 5);

    prctl(PR_SET_PDEATHSIG, SIGKILL);

    memset(&action, 0, sizeof(action));
    action.sa_handler = stop;
    sigaction(SIGTERM, &action, NULL);

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);

    server.sin_family = AF_INET;
    server.sin_port = htons(atoi(argv[1]));
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll == -1) {
        die("epoll_create1");
    }

    write_all(atol(argv[2]), atol(argv[3]) * SECOND);

    return (busy == 0) ? 0 : 1;
}
