
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "fake_etcd.h"


fake_t            fake;

static conn_t     conns[FAKE_MAX_CONNS];
static int        nconns;


static const char  usage_text[] =
"usage: fake_etcd PORT MODE [--kv KEY=VALUE]... [--event KEY=VALUE]...\n"
"                 [--cluster-id N] [--revision N] [--max-streams N]\n"
"                 [--etcd-version VERSION] [--only METHOD]\n"
"                 [--answer METHOD=FILE]... [--chunk N]\n"
"\n"
"Answers KV/Range from --kv and Watch with created, at revision 100, and\n"
"prints a line with milliseconds for each connection, call and PING.\n"
"Maintenance/Status tells the version (3.4.0): modes are not about it, and\n"
"do not count it, but for those with METHOD.\n"
"If there are --event, they happen 200 ms after the first watch, as puts of\n"
"one revision, deletions where a key starts with \"-\"; on a stream the last\n"
"watch of the first event's key gets them.\n"
"Each message of a call whose path ends with METHOD is answered by the bytes\n"
"of FILE as a message, and so ends the call.\n"
"With --chunk, KV/Range answers at most N keys, and KV/RangeStream sends\n"
"chunks of N, and the header with the last one; without, as etcd before 3.7,\n"
"UNIMPLEMENTED.\n"
"A mode changes this, where it is about calls for those with METHOD only:\n"
"\n"
"  ok                         nothing else\n"
"  goaway-drain:N             GOAWAY after the Nth call of a connection\n"
"  refuse-first[:N]           REFUSED_STREAM for the N (1) first calls\n"
"  goaway-now:ID              GOAWAY with that last stream id, 200 ms after a\n"
"                             watch was created\n"
"  rst:CODE                   RST_STREAM(CODE) for every call\n"
"  watch-rst:CODE             RST_STREAM(CODE) 200 ms after it was created\n"
"  watch-end:CODE             trailers with status CODE 200 ms after that\n"
"  watch-end-rst:CODE         the same, and RST_STREAM(NO_ERROR) after them\n"
"  trailers-only:CODE:TEXT    one HEADERS frame; TEXT as it is to be sent\n"
"  http-status:CODE           an HTML page with this status\n"
"  no-status                  ends the response without grpc-status\n"
"  truncate                   ends it with status 0 inside of a message\n"
"  compressed                 sets the compressed flag of messages\n"
"  oversize[:N]               announces messages of N bytes (2 GiB - 1)\n"
"  big-headers                100 KB of response headers\n"
"  continue                   two 1xx header blocks first\n"
"  split1                     DATA frames of one byte\n"
"  fragments[:MS]             events in one fragment each, the last MS later\n"
"  fragments-cut              as before, but closes the first connection\n"
"                             that got fragments in place of the last one\n"
"  fragments-endless:N        fragments of N empty events without end, for\n"
"                             the first watch\n"
"  watch-create-cancel[:TEXT] a watch of a key with TEXT (bad) in it is\n"
"                             created and canceled at once, with id -1\n"
"  withhold:MS                events happen before the watch is created, and\n"
"                             are sent MS later; 0: never\n"
"  withhold-listed:MS         the same, MS after keys were read alone\n"
"  counts-more:N              the Nth Range and later ones count a key more\n"
"                             than there is\n"
"  stream-end:CODE            RangeStream ends with status CODE after a chunk\n"
"  stream-bare                it sends no header\n"
"  stream-back                the revision of its header is 1\n"
"  stream-stop                it sends nothing after the first chunk\n"
"  stray                      the first event goes to watch 77 and the second\n"
"                             to watch -1, which nobody has\n"
"  descending                 watch ids from 1000 down\n"
"  lazy[:MS]                  creates are answered when none came for MS\n"
"  compacted                  the first watch is canceled with\n"
"                             compact_revision 150; the revision is 200 then\n"
"  revision:A:B               revision A for the first connection that has a\n"
"                             watch, B for all others\n"
"  other-cluster              another cluster id after the first connection\n"
"  freeze:MS                  a connection is not served any more after MS\n"
"  too-many-pings:N           GOAWAY(ENHANCE_YOUR_CALM) at the Nth PING\n"
"  flood:BYTES                sends a frame without end once a call began;\n"
"                             BYTES in hexadecimal\n"
"  silent                     accepts and never answers\n"
"  close                      accepts and closes\n"
"  http1                      answers as an HTTP/1.1 server\n"
"  bad-settings               an invalid SETTINGS frame\n";


long
now_ms(void)
{
    struct timespec  ts;

    clock_gettime(CLOCK_REALTIME, &ts);

    return ts.tv_sec * 1000L + ts.tv_nsec / 1000000;
}


int
is_mode(const char *name)
{
    return strcmp(fake.name, name) == 0;
}


/* by trailers, while they run */

int
ends_watches(void)
{
    return is_mode("watch-end") || is_mode("watch-end-rst");
}


int
is_status(stream_t *s)
{
    return strcmp(s->method, "/etcdserverpb.Maintenance/Status") == 0;
}


/* the call by which nginx asks a new connection for its cluster */

int
is_identify(stream_t *s)
{
    return s->id == 1 && strcmp(s->method, "/etcdserverpb.Watch/Watch") == 0;
}


/* a call that modes are not about unless they are asked to be */

int
is_aside(stream_t *s)
{
    return is_identify(s)
           || (is_status(s)
               && (fake.only == NULL || strstr(s->method, fake.only) == NULL));
}


int
is_mode_of(stream_t *s, const char *name)
{
    return is_mode(name)
           && !is_aside(s)
           && (fake.only == NULL || strstr(s->method, fake.only) != NULL);
}


long
mode_number(long otherwise)
{
    return fake.arg ? atol(fake.arg) : otherwise;
}


static void
conn_close(conn_t *c)
{
    stream_t  *s, *next;

    printf("%ld close conn=%d\n", now_ms(), c->number);

    for (s = fake.streams; s; s = next) {
        next = s->next;

        if (s->conn == c) {
            free_stream(s);
        }
    }

    if (c->session) {
        nghttp2_session_del(c->session);
    }

    close(c->fd);
    memset(c, 0, sizeof(conn_t));
}


static void
conn_accept(int fd)
{
    static const char  http1[] = "HTTP/1.1 400 Bad Request\r\n"
                                 "Connection: close\r\n\r\n";
    static const char  settings[] = "\0\0\006\004\0\0\0\0\0" "\0\002\0\0\0\007";
    int                i, one;
    conn_t            *c;

    for (i = 0; i < FAKE_MAX_CONNS - 1 && conns[i].fd; i++) { /* void */ }

    c = &conns[i];
    c->fd = accept(fd, NULL, NULL);

    if (c->fd <= 0) {
        c->fd = 0;
        return;
    }

    one = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(int));

    c->number = ++nconns;
    c->opened = now_ms();

    printf("%ld open conn=%d\n", c->opened, c->number);

    if (is_mode("close")) {
        conn_close(c);

    } else if (is_mode("http1")) {
        (void) !write(c->fd, http1, sizeof(http1) - 1);

    } else if (is_mode("bad-settings")) {
        (void) !write(c->fd, settings, sizeof(settings) - 1);

    } else if (!is_mode("silent")) {
        conn_session(c);
    }
}


static void
conn_read(conn_t *c)
{
    ssize_t  n;
    uint8_t  buf[16384];

    n = recv(c->fd, buf, sizeof(buf), MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }

    if (n <= 0 || (c->session
                   && (nghttp2_session_mem_recv(c->session, buf, n) < 0
                       || nghttp2_session_send(c->session) != 0)))
    {
        conn_close(c);
    }
}


static int
is_frozen(conn_t *c)
{
    return is_mode("freeze") && now_ms() - c->opened > mode_number(0);
}


/* sends what the connection takes now, and goes on within a frame */

static void
flood(conn_t *c)
{
    static uint8_t  frame[64];
    static size_t   len;
    ssize_t         n;

    if (len == 0) {
        while (len < sizeof(frame)
               && sscanf(fake.arg + 2 * len, "%2hhx", &frame[len]) == 1)
        {
            len++;
        }
    }

    for ( ;; ) {
        n = send(c->fd, frame + c->flooded, len - c->flooded,
                 MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0) {
            return;
        }

        c->flooded = (c->flooded + n) % len;
    }
}


static int
is_due(void)
{
    stream_t  *s;

    for (s = fake.streams; s; s = s->next) {
        if (s->event_time && s->event_time <= now_ms()) {
            return 1;
        }
    }

    return 0;
}


static void
serve(int fd)
{
    int             i, n;
    stream_t       *s;
    struct pollfd   fds[FAKE_MAX_CONNS + 1];
    conn_t         *polled[FAKE_MAX_CONNS + 1];

    n = 1;
    fds[0].fd = fd;
    fds[0].events = POLLIN;

    for (i = 0; i < FAKE_MAX_CONNS; i++) {
        if (conns[i].fd && !is_frozen(&conns[i])) {
            polled[n] = &conns[i];
            fds[n].fd = conns[i].fd;
            fds[n++].events = POLLIN;
        }
    }

    if (poll(fds, n, 10) < 0) {
        return;
    }

    /* Messages that are due go before the answers to new requests. */

    for (i = 1; i < n && !is_due(); i++) {
        if (fds[i].revents) {
            conn_read(polled[i]);
        }
    }

    if (fds[0].revents) {
        conn_accept(fd);
    }

    for (s = fake.streams; s; s = s->next) {
        if (s->event_time && s->event_time <= now_ms()) {
            send_events(s);
        }

        if (s->held_time && s->held_time <= now_ms()) {
            release_creates(s);
        }

        if (s->end_time && s->end_time <= now_ms()) {
            end_running(s);
        }
    }

    for (i = 0; i < FAKE_MAX_CONNS; i++) {
        if (conns[i].calls && is_mode("flood")) {
            flood(&conns[i]);
            continue;
        }

        if (conns[i].session && !is_frozen(&conns[i])
            && nghttp2_session_want_write(conns[i].session)
            && nghttp2_session_send(conns[i].session) != 0)
        {
            conn_close(&conns[i]);
        }
    }
}


static void
set_pair(pairs_t *pairs, char *arg)
{
    char    *p;
    pair_t  *pair;

    p = strchr(arg, '=');

    if (p == NULL || pairs->n == FAKE_MAX_PAIRS) {
        fprintf(stderr, "invalid KEY=VALUE \"%s\"\n", arg);
        exit(2);
    }

    *p = '\0';

    pair = &pairs->pairs[pairs->n];
    pair->deleted = (*arg == '-');
    pair->key = arg + pair->deleted;
    pair->value = p + 1;
    pair->mod_revision = 10 + pairs->n++;
}


static void
set_options(int argc, char **argv)
{
    int  i;

    for (i = 3; i + 1 < argc; i += 2) {

        if (strcmp(argv[i], "--kv") == 0) {
            set_pair(&fake.kvs, argv[i + 1]);

        } else if (strcmp(argv[i], "--event") == 0) {
            set_pair(&fake.events, argv[i + 1]);

        } else if (strcmp(argv[i], "--cluster-id") == 0) {
            fake.cluster_id = strtoull(argv[i + 1], NULL, 0);

        } else if (strcmp(argv[i], "--revision") == 0) {
            fake.revision = strtoll(argv[i + 1], NULL, 0);

        } else if (strcmp(argv[i], "--chunk") == 0) {
            fake.chunk = strtoul(argv[i + 1], NULL, 0);

        } else if (strcmp(argv[i], "--max-streams") == 0) {
            fake.max_streams = strtoul(argv[i + 1], NULL, 0);

        } else if (strcmp(argv[i], "--etcd-version") == 0) {
            fake.version = argv[i + 1];

        } else if (strcmp(argv[i], "--only") == 0) {
            fake.only = argv[i + 1];

        } else if (strcmp(argv[i], "--answer") == 0
                   && fake.nanswers < FAKE_MAX_ANSWERS)
        {
            fake.answers[fake.nanswers++] = argv[i + 1];

        } else {
            break;
        }
    }

    if (i != argc || strstr(usage_text, fake.name) == NULL) {
        fputs(usage_text, stderr);
        exit(2);
    }
}


int
main(int argc, char **argv)
{
    int                 fd, one;
    struct sockaddr_in  sin;

    if (argc < 3) {
        fputs(usage_text, stderr);
        return 2;
    }

    fake.revision = 100;
    fake.cluster_id = 0xfa4e;
    fake.version = "3.4.0";
    fake.max_streams = 1000;

    snprintf(fake.name, sizeof(fake.name), "%.*s",
             (int) strcspn(argv[2], ":"), argv[2]);
    fake.arg = strchr(argv[2], ':');
    if (fake.arg) {
        fake.arg++;
    }

    set_options(argc, argv);
    signal(SIGPIPE, SIG_IGN);

    /* a line is there before what it is about has been sent */

    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);

    fd = socket(AF_INET, SOCK_STREAM, 0);
    one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(int));

    memset(&sin, 0, sizeof(sin));
    sin.sin_family = AF_INET;
    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sin.sin_port = htons(atoi(argv[1]));

    if (fd == -1 || bind(fd, (struct sockaddr *) &sin, sizeof(sin)) == -1
        || listen(fd, FAKE_MAX_CONNS) == -1)
    {
        perror("fake_etcd");
        return 1;
    }

    printf("%ld listen %s %s\n", now_ms(), argv[1], argv[2]);

    for ( ;; ) {
        serve(fd);
    }
}
