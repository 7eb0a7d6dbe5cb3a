
/*
 * Copyright (C) nginx-etcd contributors
 *
 * HTTP servers that go wrong: one process for as many addresses as there are,
 * all with the same port:
 *
 *     members PORT ORDERS
 *
 * A server is known by the last two bytes of its address, as one number:
 * 10.9.1.2 and 127.1.1.2 are 258.  ORDERS is a FIFO, of which each line is
 *
 *     STATE FROM TO
 *
 * and says what the servers FROM .. TO do from now on:
 *
 *     ok       answer after 2 ms, and by 503 beyond "limit" requests at a time
 *     slow     answer after 10 s
 *     hang     accept, read, and answer nothing
 *     fail     answer by 500
 *     sick     answer /health by 500, and everything else as "ok"
 *     reset    reset the connection in place of an answer
 *
 * "limit N 0" sets the limit of all servers, "delay MS 0" the time of an answer
 * that is "ok".
 */


#define _GNU_SOURCE           /* accept4() */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
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
#include <signal.h>


#define SERVERS  65536
#define BUFFER   2048
#define SLOW     10000               /* ms */


typedef enum {
    OK = 0, SLOWLY, HANG, FAIL, SICK, RESET
} state_e;

typedef struct client_s  client_t;

struct client_s {
    int        fd;
    int        server;
    int        busy;                 /* is counted for the limit */
    int        status;
    int64_t    due;                  /* ms */
    size_t     len;
    char       in[BUFFER];
    client_t  *prev, *next;          /* of those that wait for an answer */
};


/* the times in a queue are all the same: the first one is due first */

static client_t       quickly, slowly;
static unsigned char  states[SERVERS];
static int            active[SERVERS];
static int            epoll, limit = 1 << 30, delay = 2;

static const char    *names[] = {
    "ok", "slow", "hang", "fail", "sick", "reset", NULL
};


static void
die(const char *what)
{
    perror(what);
    exit(1);
}


static int64_t
now(void)
{
    struct timespec  ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);

    return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}


static void
dequeue(client_t *client)
{
    if (client->next != NULL) {
        client->prev->next = client->next;
        client->next->prev = client->prev;
        client->next = NULL;
    }
}


static void
enqueue(client_t *queue, client_t *client, int ms)
{
    client->due = now() + ms;
    client->prev = queue->prev;
    client->next = queue;
    queue->prev->next = client;
    queue->prev = client;
}


static void
done(client_t *client)
{
    active[client->server] -= client->busy;
    client->busy = 0;
    dequeue(client);
}


static void
hang_up(client_t *client)
{
    done(client);
    close(client->fd);
    free(client);
}


static void
reset(client_t *client)
{
    struct linger  linger = { 1, 0 };

    setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    hang_up(client);
}


static void
answer(client_t *client)
{
    int   n;
    char  text[256];

    n = snprintf(text, sizeof(text), "HTTP/1.1 %d Answer\r\n"
                 "Content-Length: 2\r\n\r\nok", client->status);

    done(client);

    /* epoll tells of connections that were closed meanwhile */

    (void) send(client->fd, text, n, MSG_NOSIGNAL);
}


static void
ask(client_t *client)
{
    int      n;
    state_e  state;

    n = client->server;
    state = states[n];

    if (state == HANG) {
        return;
    }

    if (state == RESET) {
        reset(client);
        return;
    }

    client->busy = 1;
    client->status = 200;
    active[n]++;

    if (state == FAIL
        || (state == SICK
            && strncmp(client->in, "GET /health ", 12) == 0))
    {
        client->status = 500;

    } else if (active[n] > limit
               && strncmp(client->in, "GET /health ", 12) != 0)
    {
        client->status = 503;
    }

    if (client->status != 200) {
        answer(client);
        return;
    }

    enqueue(state == SLOWLY ? &slowly : &quickly, client,
            state == SLOWLY ? SLOW : delay);
}


static void
receive(client_t *client)
{
    ssize_t  n;

    n = recv(client->fd, client->in + client->len, BUFFER - 1 - client->len,
             MSG_DONTWAIT);

    if (n == -1 && errno == EAGAIN) {
        return;
    }

    if (n <= 0 || client->len + n == BUFFER - 1) {
        hang_up(client);
        return;
    }

    client->len += n;
    client->in[client->len] = '\0';

    if (strstr(client->in, "\r\n\r\n") != NULL) {
        client->len = 0;
        ask(client);
    }
}


static void
accept_all(int listening)
{
    int                  fd, on;
    client_t            *client;
    socklen_t            len;
    struct sockaddr_in   sin;
    struct epoll_event   event;

    for ( ;; ) {
        fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK|SOCK_CLOEXEC);

        if (fd == -1) {
            return;
        }

        client = calloc(1, sizeof(client_t));
        if (client == NULL) {
            die("calloc");
        }

        len = sizeof(sin);
        on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));

        if (getsockname(fd, (struct sockaddr *) &sin, &len) == -1) {
            die("getsockname");
        }

        client->fd = fd;
        client->server = ntohl(sin.sin_addr.s_addr) & 0xffff;

        event.events = EPOLLIN;
        event.data.ptr = client;

        if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == -1) {
            die("epoll_ctl");
        }
    }
}


static void
obey(char *order)
{
    int   i, from, to;
    char  what[16];

    if (sscanf(order, "%15s %d %d", what, &from, &to) != 3) {
        return;
    }

    if (strcmp(what, "limit") == 0) {
        limit = from;

    } else if (strcmp(what, "delay") == 0) {
        delay = from;
    }

    for (i = 0; names[i] != NULL; i++) {
        if (strcmp(what, names[i]) == 0 && from >= 0 && to < SERVERS) {
            memset(states + from, i, to - from + 1);
        }
    }
}


/* a line is written at once, and read as a whole */

static void
read_orders(int orders)
{
    char     text[4096], *line, *rest;
    ssize_t  n;

    n = read(orders, text, sizeof(text) - 1);

    if (n <= 0) {
        return;
    }

    text[n] = '\0';
    rest = text;

    while ((line = strsep(&rest, "\n")) != NULL) {
        obey(line);
    }
}


static int
listen_on(int port)
{
    int                 fd, on;
    struct sockaddr_in  sin;

    memset(&sin, 0, sizeof(sin));
    sin.sin_family = AF_INET;
    sin.sin_port = htons(port);
    on = 1;

    fd = socket(AF_INET, SOCK_STREAM|SOCK_NONBLOCK|SOCK_CLOEXEC, 0);

    if (fd == -1
        || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == -1
        || bind(fd, (struct sockaddr *) &sin, sizeof(sin)) == -1
        || listen(fd, 4096) == -1)
    {
        die("listen");
    }

    return fd;
}


static void
watch(int *fd)
{
    struct epoll_event  event;

    event.events = EPOLLIN;
    event.data.ptr = fd;

    if (epoll_ctl(epoll, EPOLL_CTL_ADD, *fd, &event) == -1) {
        die("epoll_ctl");
    }
}


static void
answer_due(client_t *queue)
{
    int64_t  time;

    time = now();

    while (queue->next != queue && queue->next->due <= time) {
        answer(queue->next);
    }
}


int
main(int argc, char **argv)
{
    int                  i, n, listening, orders;
    void                *of;
    struct rlimit        files;
    struct epoll_event   events[64];

    if (argc != 3) {
        fprintf(stderr, "usage: members PORT ORDERS\n");
        return 2;
    }

    prctl(PR_SET_PDEATHSIG, SIGKILL);

    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);

    quickly.prev = quickly.next = &quickly;
    slowly.prev = slowly.next = &slowly;

    epoll = epoll_create1(EPOLL_CLOEXEC);
    orders = open(argv[2], O_RDWR|O_NONBLOCK|O_CLOEXEC);
    listening = listen_on(atoi(argv[1]));

    if (epoll == -1 || orders == -1) {
        die(argv[2]);
    }

    watch(&listening);
    watch(&orders);

    for ( ;; ) {
        n = epoll_wait(epoll, events, 64,
                       quickly.next != &quickly ? 1 : 100);

        for (i = 0; i < n; i++) {
            of = events[i].data.ptr;

            if (of == &listening) {
                accept_all(listening);

            } else if (of == &orders) {
                read_orders(orders);

            } else {
                receive(of);
            }
        }

        answer_due(&quickly);
        answer_due(&slowly);
    }
}
