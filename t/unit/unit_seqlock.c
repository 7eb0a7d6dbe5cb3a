
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Data behind a seqlock, as a directive:
 *
 *     etcd_seqlock;
 *
 * First with writers at certain points of a read, then with another process
 * that writes as long as this one is there.  Writes "seqlock: ok", or what is
 * wrong.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <sys/mman.h>
#include <ngx_etcd_shared.h>
#include "unit.h"


#define NGX_ETCD_UNIT_SEQLOCK_WORDS   512
#define NGX_ETCD_UNIT_SEQLOCK_VALUES  50     /* different ones to be seen */


typedef struct {
    ngx_etcd_seqlock_t  lock;
    volatile uint64_t   data[NGX_ETCD_UNIT_SEQLOCK_WORDS];
} ngx_etcd_unit_seqlock_t;


static const char *
ngx_etcd_unit_seqlock_single(ngx_etcd_unit_seqlock_t *s)
{
    ngx_etcd_seqlock_reader_t  reader;

    ngx_etcd_seqlock_read(&reader, &s->lock, 0);

    if (!ngx_etcd_seqlock_try(&reader) || !ngx_etcd_seqlock_valid(&reader)) {
        return "what was never written is not read";
    }

    (void) ngx_etcd_seqlock_try(&reader);
    ngx_etcd_seqlock_write(&s->lock);

    if (ngx_etcd_seqlock_valid(&reader)) {
        return "what is being written is valid";
    }

    if (ngx_etcd_seqlock_try(&reader)) {
        return "what a killed writer left is read";
    }

    ngx_etcd_seqlock_read(&reader, &s->lock, 1);

    if (ngx_etcd_seqlock_try(&reader)) {
        return "what a killed writer left is read with patience";
    }

    ngx_etcd_seqlock_write(&s->lock);

    if (!(s->lock & 1)) {
        return "the writer after a killed one lets readers in";
    }

    ngx_etcd_seqlock_written(&s->lock);
    ngx_etcd_seqlock_read(&reader, &s->lock, 0);

    if (!ngx_etcd_seqlock_try(&reader) || !ngx_etcd_seqlock_valid(&reader)) {
        return "what the next writer wrote is not read";
    }

    ngx_etcd_seqlock_write(&s->lock);
    ngx_etcd_seqlock_written(&s->lock);

    return ngx_etcd_seqlock_valid(&reader) ? "a whole write is not noticed"
                                           : NULL;
}


static void
ngx_etcd_unit_seqlock_write(ngx_etcd_unit_seqlock_t *s)
{
    uint64_t    value;
    ngx_pid_t   parent;
    ngx_uint_t  i;

    parent = getppid();

    for (value = 1; value % 1024 != 0 || getppid() == parent; value++) {

        ngx_etcd_seqlock_write(&s->lock);

        for (i = 0; i < NGX_ETCD_UNIT_SEQLOCK_WORDS; i++) {
            s->data[i] = value;
        }

        ngx_etcd_seqlock_written(&s->lock);

        ngx_sched_yield();
    }
}


/* 0: torn */

static ngx_uint_t
ngx_etcd_unit_seqlock_whole(volatile uint64_t *data, uint64_t *copy,
    ngx_etcd_seqlock_reader_t *reader)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_UNIT_SEQLOCK_WORDS; i++) {
        copy[i] = data[i];
    }

    if (!ngx_etcd_seqlock_valid(reader)) {
        return 1;
    }

    for (i = 1; i < NGX_ETCD_UNIT_SEQLOCK_WORDS; i++) {
        if (copy[i] != copy[0]) {
            return 0;
        }
    }

    return 1;
}


static const char *
ngx_etcd_unit_seqlock_other(ngx_etcd_unit_seqlock_t *s)
{
    uint64_t                   copy[NGX_ETCD_UNIT_SEQLOCK_WORDS], last;
    ngx_uint_t                 values;
    ngx_etcd_seqlock_reader_t  reader;

    copy[0] = 0;
    last = 0;
    values = 0;

    while (values < NGX_ETCD_UNIT_SEQLOCK_VALUES) {

        ngx_etcd_seqlock_read(&reader, &s->lock, 1);

        if (ngx_etcd_seqlock_try(&reader)
            && !ngx_etcd_unit_seqlock_whole(s->data, copy, &reader))
        {
            return "a torn read is valid";
        }

        if (copy[0] != last) {
            last = copy[0];
            values++;

        } else {
            ngx_sched_yield();
        }
    }

    return NULL;
}


char *
ngx_etcd_unit_seqlock(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_pid_t                 pid;
    const char               *wrong;
    ngx_etcd_unit_seqlock_t  *s;

    s = mmap(NULL, sizeof(ngx_etcd_unit_seqlock_t), PROT_READ|PROT_WRITE,
             MAP_SHARED|MAP_ANONYMOUS, -1, 0);

    if (s == MAP_FAILED) {
        return NGX_CONF_ERROR;
    }

    wrong = ngx_etcd_unit_seqlock_single(s);

    if (wrong == NULL) {
        pid = fork();

        if (pid == 0) {
            ngx_etcd_unit_seqlock_write(s);
            _exit(0);
        }

        if (pid == -1) {
            return NGX_CONF_ERROR;
        }

        wrong = ngx_etcd_unit_seqlock_other(s);

        (void) kill(pid, SIGKILL);
        (void) waitpid(pid, NULL, 0);
    }

    printf("seqlock: %s\n", wrong ? wrong : "ok");

    (void) munmap(s, sizeof(ngx_etcd_unit_seqlock_t));

    return NGX_CONF_OK;
}
