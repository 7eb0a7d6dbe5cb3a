
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Times changes in etcd:
 *
 *     propagation ETCD_PORT NGINX_PORT WORKERS CYCLES CHANGES WATCH...
 *
 * CHANGES is a file with a line for each change of a cycle, of fields with a
 * tab between them: its kind, what the watch prints for it, what GET / of
 * nginx answers from then on (one character), the time to the next change and
 * how much more at random, in ms, and the path and body of the request that
 * makes it, to etcd's JSON gateway.  After them there may be those of another
 * request, made some time later, which changes nothing that is looked at.
 * WATCH is a command that prints a line per event.
 *
 * nginx says in X-Worker which worker answers; every worker is asked all the
 * time, over one connection.  With WORKERS of "-4", say, 4 new connections are
 * made all the time instead, whichever worker takes them, and a change is seen
 * when no answer is of the old state any more.
 *
 * Prints a line per change: its kind, how late the watch and each worker were
 * in microseconds, and how many answers were of the old state after a new one.
 * The last lines say how closely the workers were watched.
 */


#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>


#define MAX_WORKERS   16
#define MAX_CHANGES   16
#define MAX_ATTEMPTS  1000
#define BUFFER        8192
#define BUCKETS       100000               /* of 1 us each */
#define LINES         3                    /* of an event, as it is printed */

#define PERIOD        250000               /* between two polls of a worker */
#define FRESH_PERIOD  1000000              /* between two new connections */
#define QUIET         20000000             /* nothing of the old state */
#define PATIENCE      10000000000          /* all in ns */


typedef struct {
    int        fd;
    int        busy;
    int        seen;                       /* the change */
    char      *name;
    size_t     len;
    char       in[BUFFER];

    int64_t    sent;                       /* the request under way */
    int64_t    due;                        /* the next one */
    int64_t    sent_seen;                  /* the first that followed */
    int64_t    answered_seen;
} peer_t;


typedef struct {
    char      *kind;
    char      *request;
    char      *event;                      /* beginning of the watch's output */
    char       state;                      /* nginx's answer */
    int64_t    gap;                        /* to the next change, without */
    int64_t    jitter;
    char      *after;                      /* a request, or NULL */
} change_t;


static void die(char *format, ...);
static int64_t now(void);
static int dial(int port);
static void write_all(int fd, char *data);
static int read_some(peer_t *peer);
static int take_answer(peer_t *peer, char *body);
static void read_changes(char *path);
static char *make_request(char *path, char *body);
static void find_workers(int port);
static char *worker_name(int fd);
static int start_watch(char **argv);
static void ask(int i, int64_t when);
static void hang_up(peer_t *peer);
static void answered(peer_t *peer, char state, int64_t when);
static void turn(int64_t until);
static void wait_until(int64_t when);
static int complete(void);
static int printed(void);
static void make_change(change_t *change);
static void make_after(char *request);
static void print_closeness(char *what, unsigned *histogram);


static peer_t     workers[MAX_WORKERS];
static int        nworkers;
static peer_t     etcd, watch;

/* the state that answers have to be of, and how many were not, too late */

static char       state;
static unsigned   late;

static unsigned   took[BUCKETS], apart[BUCKETS];

static char       get[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";

static change_t   changes[MAX_CHANGES];
static int        nchanges;

/* connections are for one request each */

static int        fresh;
static int        nginx_port;
static int64_t    period = PERIOD;


int
main(int argc, char **argv)
{
    int  i, cycles;

    if (argc < 7) {
        die("too few arguments");
    }

    nworkers = atoi(argv[3]);
    cycles = atoi(argv[4]);

    if (nworkers < 0) {
        fresh = 1;
        period = FRESH_PERIOD;
        nworkers = -nworkers;
    }

    if (nworkers < 1 || nworkers > MAX_WORKERS) {
        die("1 to %d workers", MAX_WORKERS);
    }

    read_changes(argv[5]);

    /* timers are exact to the microsecond, not to the usual 50 */

    prctl(PR_SET_TIMERSLACK, 1);

    watch.fd = start_watch(&argv[6]);
    etcd.fd = dial(atoi(argv[1]));
    nginx_port = atoi(argv[2]);

    if (fresh) {
        for (i = 0; i < nworkers; i++) {
            workers[i].fd = -1;
            workers[i].due = now() + i * period / nworkers;
        }

    } else {
        find_workers(nginx_port);
    }

    /* not counted: these show that the watch is there */

    for (i = 0; i < nchanges; i++) {
        make_change(&changes[i]);
    }

    printf("begin\n");

    for (i = 0; i < cycles * nchanges; i++) {
        make_change(&changes[i % nchanges]);
    }

    print_closeness("took", took);
    print_closeness("apart", apart);

    return 0;
}


static void
die(char *format, ...)
{
    va_list  args;

    va_start(args, format);
    fprintf(stderr, "propagation: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);

    exit(1);
}


static int64_t
now(void)
{
    struct timespec  ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);

    return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}


static int
dial(int port)
{
    int                 fd, one;
    struct sockaddr_in  sin;

    memset(&sin, 0, sizeof(struct sockaddr_in));

    sin.sin_family = AF_INET;
    sin.sin_port = htons(port);
    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    fd = socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, 0);

    if (fd == -1
        || connect(fd, (struct sockaddr *) &sin, sizeof(struct sockaddr_in))
           == -1)
    {
        die("connect to port %d: %s", port, strerror(errno));
    }

    one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(int));

    return fd;
}


/* The bytes written here always fit into the socket's buffer. */

static void
write_all(int fd, char *data)
{
    size_t  len;

    len = strlen(data);

    if (write(fd, data, len) != (ssize_t) len) {
        die("write: %s", strerror(errno));
    }
}


static int
read_some(peer_t *peer)
{
    ssize_t  n;

    n = read(peer->fd, peer->in + peer->len, BUFFER - 1 - peer->len);

    if (n <= 0) {
        die("read: %s", n == 0 ? "closed" : strerror(errno));
    }

    peer->len += n;
    peer->in[peer->len] = '\0';

    return n;
}


/* true when a whole answer is there: takes it, and gives its first byte */

static int
take_answer(peer_t *peer, char *body)
{
    char    *end, *length;
    size_t   n;

    end = strstr(peer->in, "\r\n\r\n");

    if (end == NULL) {
        return 0;
    }

    length = strcasestr(peer->in, "\r\nContent-Length: ");

    if (strncmp(peer->in, "HTTP/1.1 200 ", 13) != 0
        || length == NULL || length > end)
    {
        die("unexpected answer: %s", peer->in);
    }

    n = end + 4 - peer->in + atoi(length + 18);

    if (peer->len < n) {
        return 0;
    }

    *body = end[4];
    peer->len = 0;

    return 1;
}


static void
read_changes(char *path)
{
    int        i;
    char       line[BUFFER], *p, *field[9];
    FILE      *file;
    change_t  *change;

    file = fopen(path, "r");

    if (file == NULL) {
        die("%s: %s", path, strerror(errno));
    }

    while (nchanges < MAX_CHANGES && fgets(line, BUFFER, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        p = line;

        for (i = 0; i < 9 && p != NULL; i++) {
            field[i] = strsep(&p, "\t");
        }

        if (i != 7 && i != 9) {
            die("%s: %d fields", path, i);
        }

        change = &changes[nchanges++];

        change->kind = strdup(field[0]);
        change->event = strdup(field[1]);
        change->state = field[2][0];
        change->gap = atoi(field[3]) * 1000000LL;
        change->jitter = atoi(field[4]) * 1000000LL;
        change->request = make_request(field[5], field[6]);
        change->after = (i == 9) ? make_request(field[7], field[8]) : NULL;
    }

    fclose(file);

    if (nchanges == 0) {
        die("%s: no changes", path);
    }
}


static char *
make_request(char *path, char *body)
{
    char  *request;

    if (asprintf(&request, "POST /v3/kv/%s HTTP/1.1\r\nHost: localhost\r\n"
                 "Content-Length: %zu\r\n\r\n%s", path, strlen(body), body)
        == -1)
    {
        die("no memory");
    }

    return request;
}


/* Any worker may accept a connection: connects until each one has. */

static void
find_workers(int port)
{
    int    i, n, fd, attempt;
    char  *name;

    n = 0;

    for (attempt = 0; n < nworkers && attempt < MAX_ATTEMPTS; attempt++) {
        fd = dial(port);
        name = worker_name(fd);

        for (i = 0; i < n && strcmp(workers[i].name, name) != 0; i++) {
            continue;
        }

        if (i < n) {
            close(fd);
            free(name);
            continue;
        }

        workers[n].fd = fd;
        workers[n].name = name;
        workers[n].due = now() + n * PERIOD / nworkers;
        n++;
    }

    if (n < nworkers) {
        die("found %d workers of %d", n, nworkers);
    }
}


static char *
worker_name(int fd)
{
    char    body, *p;
    peer_t  peer;

    peer.fd = fd;
    peer.len = 0;

    write_all(fd, get);

    do {
        read_some(&peer);
    } while (!take_answer(&peer, &body));

    p = strstr(peer.in, "X-Worker: ");

    if (p == NULL) {
        die("no X-Worker in %s", peer.in);
    }

    return strndup(p + 10, strcspn(p + 10, "\r\n"));
}


static int
start_watch(char **argv)
{
    int  fds[2];

    if (pipe(fds) == -1) {
        die("pipe: %s", strerror(errno));
    }

    switch (fork()) {

    case -1:
        die("fork: %s", strerror(errno));
        break;

    case 0:
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        dup2(fds[1], STDOUT_FILENO);
        close(fds[0]);
        close(fds[1]);
        execvp(argv[0], argv);
        die("%s: %s", argv[0], strerror(errno));
        break;

    default:
        close(fds[1]);
        break;
    }

    return fds[0];
}


static void
ask(int i, int64_t when)
{
    int64_t  gap;
    peer_t  *worker;

    worker = &workers[i];

    if (worker->sent != 0) {
        gap = (when - worker->sent) / 1000;
        apart[gap < BUCKETS ? gap : BUCKETS - 1]++;
    }

    if (fresh) {
        worker->fd = dial(nginx_port);
    }

    write_all(worker->fd, get);

    worker->busy = 1;
    worker->sent = when;

    /* in step with the others, so that they are asked one after another */

    worker->due += ((when - worker->due) / period + 1) * period;
}


/* by a reset, which leaves no port in TIME_WAIT */

static void
hang_up(peer_t *peer)
{
    struct linger  linger;

    linger.l_onoff = 1;
    linger.l_linger = 0;

    setsockopt(peer->fd, SOL_SOCKET, SO_LINGER, &linger,
               sizeof(struct linger));
    close(peer->fd);

    peer->fd = -1;
}


static void
answered(peer_t *worker, char answer, int64_t when)
{
    int64_t  us;

    us = (when - worker->sent) / 1000;
    took[us < BUCKETS ? us : BUCKETS - 1]++;

    worker->busy = 0;

    if (fresh) {
        hang_up(worker);
        worker->seen = (worker->seen && answer == state);
    }

    if (answer != state) {
        late += worker->seen;

    } else if (!worker->seen) {
        worker->seen = 1;
        worker->sent_seen = worker->sent;
        worker->answered_seen = when;
    }
}


/* sends what is due and handles what comes, at the latest by the time given */

static void
turn(int64_t until)
{
    int              i;
    char             body;
    int64_t          when, wait;
    struct pollfd    fds[MAX_WORKERS + 2];
    struct timespec  timeout;

    when = now();

    for (i = 0; i < nworkers; i++) {
        if (!workers[i].busy && workers[i].due <= when) {
            ask(i, when);
        }

        if (!workers[i].busy && workers[i].due < until) {
            until = workers[i].due;
        }

        fds[i].fd = workers[i].fd;
    }

    fds[nworkers].fd = watch.fd;
    fds[nworkers + 1].fd = etcd.fd;

    for (i = 0; i < nworkers + 2; i++) {
        fds[i].events = POLLIN;
    }

    wait = until - now();
    wait = (wait > 0) ? wait : 0;
    timeout.tv_sec = wait / 1000000000;
    timeout.tv_nsec = wait % 1000000000;

    if (ppoll(fds, nworkers + 2, &timeout, NULL) == -1) {
        die("ppoll: %s", strerror(errno));
    }

    when = now();

    if (fds[nworkers].revents != 0 && read_some(&watch) && !watch.seen) {
        watch.seen = 1;
        watch.answered_seen = when;
    }

    if (fds[nworkers + 1].revents != 0 && read_some(&etcd)
        && take_answer(&etcd, &body))
    {
        etcd.busy = 0;
    }

    for (i = 0; i < nworkers; i++) {
        if (fds[i].revents != 0 && read_some(&workers[i])
            && take_answer(&workers[i], &body))
        {
            answered(&workers[i], body, when);
        }
    }
}


static void
wait_until(int64_t when)
{
    while (now() < when) {
        turn(when);
    }
}


static int
complete(void)
{
    int      i, n;
    int64_t  quiet;

    n = 0;
    quiet = fresh ? now() - QUIET : INT64_MAX;

    for (i = 0; i < nworkers; i++) {
        n += workers[i].seen && workers[i].answered_seen <= quiet;
    }

    return n == nworkers && watch.seen && !etcd.busy;
}


/* the watch has printed all of an event: what it is, the key, and the value */

static int
printed(void)
{
    int    n;
    char  *p;

    n = 0;

    for (p = watch.in; p < watch.in + watch.len; p++) {
        n += (*p == '\n');
    }

    return n >= LINES;
}


static void
make_change(change_t *change)
{
    int      i;
    int64_t  started, end;

    for (i = 0; i < nworkers; i++) {
        workers[i].seen = 0;
    }

    watch.seen = 0;
    watch.len = 0;
    late = 0;
    state = change->state;
    etcd.busy = 1;

    started = now();
    write_all(etcd.fd, change->request);

    while (!complete()) {
        turn(started + PATIENCE);

        if (now() >= started + PATIENCE) {
            die("\"%s\" did not arrive", change->kind);
        }
    }

    end = started + change->gap;

    if (change->jitter != 0) {
        end += random() % change->jitter;
    }

    wait_until(end);

    while (!printed()) {
        turn(now() + PERIOD);
    }

    if (strncmp(watch.in, change->event, strlen(change->event)) != 0) {
        die("the watch printed \"%s\"", watch.in);
    }

    printf("%s %u %ld", change->kind, late,
           (long) (watch.answered_seen - started) / 1000);

    for (i = 0; i < nworkers; i++) {
        printf(" %ld/%ld", (long) (workers[i].sent_seen - started) / 1000,
               (long) (workers[i].answered_seen - started) / 1000);
    }

    printf("\n");

    if (change->after != NULL) {
        make_after(change->after);
    }
}


/* the request is done when etcd answered and the watch printed all of it */

static void
make_after(char *request)
{
    watch.seen = 0;
    watch.len = 0;
    etcd.busy = 1;

    write_all(etcd.fd, request);

    while (etcd.busy || !printed()) {
        turn(now() + PERIOD);
    }

    wait_until(now() + QUIET);
}


static void
print_closeness(char *what, unsigned *histogram)
{
    long  i, n, all;

    all = 0;
    n = 0;

    for (i = 0; i < BUCKETS; i++) {
        all += histogram[i];
    }

    printf("%s", what);

    for (i = 0; i < BUCKETS; i++) {
        if (n * 2 < all && (n + histogram[i]) * 2 >= all) {
            printf(" %ld", i);
        }

        if (n * 100 < all * 99 && (n + histogram[i]) * 100 >= all * 99) {
            printf(" %ld", i);
        }

        n += histogram[i];
    }

    printf("\n");
}
