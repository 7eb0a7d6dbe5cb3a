
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A worker that stops at a function, as a directive:
 *
 *     etcd_stop FILE;
 *
 * After a signal SIGRTMIN a worker stops itself, by SIGSTOP, where it calls the
 * function that the file names, which a module exports: the function begins
 * with a breakpoint until then.  Signalled again, it stops once more.  Works on
 * x86_64.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <ucontext.h>
#include "test_module.h"


#define NGX_ETCD_UNIT_STOP_NAME  128
#define NGX_ETCD_UNIT_STOP_CODE  0xcc      /* int3 */


static char *ngx_etcd_unit_stop(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
static ngx_int_t ngx_etcd_unit_stop_start(ngx_cycle_t *cycle);
static void ngx_etcd_unit_stop_arm(int signo);
static void ngx_etcd_unit_stop_store(u_char code);
static void ngx_etcd_unit_stop_reached(int signo, siginfo_t *info,
    void *context);


/* of the last configuration that was read */

static ngx_str_t  ngx_etcd_unit_stop_file;


static u_char    *ngx_etcd_unit_stop_at;
static u_char     ngx_etcd_unit_stop_code;


static ngx_command_t  ngx_etcd_unit_stop_commands[] = {

    { ngx_string("etcd_stop"),
      NGX_MAIN_CONF|NGX_DIRECT_CONF|NGX_CONF_TAKE1,
      ngx_etcd_unit_stop,
      0,
      0,
      NULL },

      ngx_null_command
};


test_module_start(ngx_etcd_unit_stop_module, ngx_etcd_unit_stop_commands,
                  ngx_etcd_unit_stop_start);


static char *
ngx_etcd_unit_stop(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t  *value;

    value = cf->args->elts;
    ngx_etcd_unit_stop_file = value[1];

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_etcd_unit_stop_start(ngx_cycle_t *cycle)
{
    struct sigaction  sa;

    ngx_memzero(&sa, sizeof(struct sigaction));

    sa.sa_handler = ngx_etcd_unit_stop_arm;

    if (sigaction(SIGRTMIN, &sa, NULL) == -1) {
        return NGX_ERROR;
    }

    sa.sa_flags = SA_SIGINFO;
    sa.sa_sigaction = ngx_etcd_unit_stop_reached;

    return (sigaction(SIGTRAP, &sa, NULL) == -1) ? NGX_ERROR : NGX_OK;
}


/* The worker waits for events: what it calls there needs no reentrance. */

static void
ngx_etcd_unit_stop_arm(int signo)
{
    int      fd;
    char     name[NGX_ETCD_UNIT_STOP_NAME];
    ssize_t  n;

    fd = open((char *) ngx_etcd_unit_stop_file.data, O_RDONLY);
    n = (fd != -1) ? read(fd, name, sizeof(name) - 1) : -1;

    if (n <= 0) {
        return;
    }

    close(fd);
    name[n] = '\0';

    ngx_etcd_unit_stop_at = dlsym(RTLD_DEFAULT, name);

    if (ngx_etcd_unit_stop_at != NULL) {
        ngx_etcd_unit_stop_code = *ngx_etcd_unit_stop_at;
        ngx_etcd_unit_stop_store(NGX_ETCD_UNIT_STOP_CODE);
    }
}


static void
ngx_etcd_unit_stop_store(u_char code)
{
    u_char  *page;

    page = (u_char *) ((uintptr_t) ngx_etcd_unit_stop_at
                       & ~((uintptr_t) ngx_pagesize - 1));

    if (mprotect(page, ngx_pagesize, PROT_READ|PROT_WRITE|PROT_EXEC) == 0) {
        *ngx_etcd_unit_stop_at = code;
        (void) mprotect(page, ngx_pagesize, PROT_READ|PROT_EXEC);
    }
}


/* The function begins anew after the stop, without the breakpoint. */

static void
ngx_etcd_unit_stop_reached(int signo, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;

    ngx_etcd_unit_stop_store(ngx_etcd_unit_stop_code);

    uc->uc_mcontext.gregs[REG_RIP] = (greg_t) ngx_etcd_unit_stop_at;

    (void) raise(SIGSTOP);
}
