
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A mirror whose consumer remembers what it was told: sim_mirror.c checks it
 * against the model, whoever feeds it.
 */


#ifndef _SIM_MIRROR_H_INCLUDED_
#define _SIM_MIRROR_H_INCLUDED_


#include "sim_world.h"
#include <ngx_etcd_mirror.h>


typedef struct {
    ngx_etcd_mirror_t         mirror;
    sim_proc_t               *proc;
    ngx_uint_t                store;        /* number of the history */
    ngx_int_t                 n;            /* entries, as was told */
    ngx_uint_t                stopped;
} sim_mirror_t;


/* sets the handlers and the size of an entry, and initializes the mirror */
void sim_mirror_init(sim_mirror_t *m, sim_proc_t *proc);

/* memory that is left is a fault */
void sim_mirror_destroy(sim_mirror_t *m);

/* NULL: it is what the store had at that revision */
char *sim_mirror_differs(sim_mirror_t *m, model_store_t *store,
    int64_t revision);


#endif /* _SIM_MIRROR_H_INCLUDED_ */
