
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Registrations: each process has a key of its own, and one that all want.
 */


#include "sim_world.h"
#include <ngx_etcd_client.h>
#include <ngx_etcd_register.h>


#define SIM_REGISTERS  2


typedef struct {
    ngx_etcd_cluster_t       *cluster;
    ngx_etcd_watch_stream_t  *stream;
    ngx_etcd_lease_stream_t  *leases;
    ngx_etcd_register_t       registers[SIM_REGISTERS];
    ngx_uint_t                ended;
} sim_member_t;


static void sim_register_start(sim_proc_t *proc);
static void sim_register_begin(sim_proc_t *proc, ngx_uint_t i);
static void sim_register_stop(sim_proc_t *proc);
static void sim_register_leave(sim_proc_t *proc);
static void sim_register_ended(void *data);
static void sim_register_check(sim_proc_t *proc);
static ngx_uint_t sim_register_settled(sim_proc_t *proc);
static ngx_uint_t sim_register_left(sim_proc_t *proc);
static ngx_int_t sim_register_changed(ngx_etcd_register_t *reg);


sim_actor_t  sim_register_actor = {
    "register",
    sim_register_start,
    sim_register_stop,
    sim_register_leave,
    sim_register_check,
    sim_register_settled,
    sim_register_left
};


/* the state that a process leaves in shared memory */

static ngx_etcd_lease_state_t  sim_register_holds[SIM_PROCS][SIM_REGISTERS];


static void
sim_register_start(sim_proc_t *proc)
{
    ngx_uint_t     i;
    sim_member_t  *member;

    if (proc->lives == 1) {
        ngx_memzero(&sim_register_holds[proc->index],
                    sizeof(sim_register_holds[0]));
    }

    member = ngx_pcalloc(proc->pool, sizeof(sim_member_t));
    proc->data = member;

    member->cluster = ngx_etcd_client_create(&sim_world.conf, sim_nothing,
                                             NULL, &sim.log);
    member->stream = ngx_etcd_watch_stream_create(member->cluster);
    member->leases = ngx_etcd_lease_stream_create(member->cluster);

    for (i = 0; i < SIM_REGISTERS; i++) {
        sim_register_begin(proc, i);
    }
}


static void
sim_register_begin(sim_proc_t *proc, ngx_uint_t i)
{
    sim_member_t            *member;
    ngx_etcd_register_t     *reg;
    ngx_etcd_lease_state_t  *hold;

    member = proc->data;
    hold = &sim_register_holds[proc->index][i];

    reg = &member->registers[i];
    reg->stream = member->stream;
    reg->leases = member->leases;
    reg->pool = proc->pool;
    ngx_str_set(&reg->name, "register");
    reg->key.data = ngx_pnalloc(proc->pool, 8);
    reg->key.len = ngx_sprintf(reg->key.data, "t/r/%s",
                               i ? "all" : (char *) proc->name)
                   - reg->key.data;
    reg->value.data = proc->name;
    reg->value.len = ngx_strlen(proc->name);
    reg->ttl = sim_world.ttl;
    reg->changed = sim_register_changed;
    reg->data = hold;

    if (proc->lives > 1 && sim_chance(2)) {
        reg->hold = *hold;
    }

    if (ngx_etcd_register_start(reg) != NGX_OK) {
        abort();
    }

    *hold = reg->hold;
}


static void
sim_register_stop(sim_proc_t *proc)
{
    ngx_uint_t     i;
    sim_member_t  *member;

    member = proc->data;

    ngx_etcd_watch_stream_destroy(member->stream);

    for (i = 0; i < SIM_REGISTERS; i++) {
        ngx_etcd_register_close(&member->registers[i]);
    }

    ngx_etcd_lease_stream_destroy(member->leases);
    ngx_etcd_client_destroy(member->cluster);
}


static ngx_int_t
sim_register_changed(ngx_etcd_register_t *reg)
{
    ngx_etcd_lease_state_t  *hold = reg->data;

    *hold = reg->hold;

    return NGX_OK;
}


static void
sim_register_check(sim_proc_t *proc)
{
    /* nobody is excluded by a key: it has to be there in the end */
}


static ngx_uint_t
sim_register_settled(sim_proc_t *proc)
{
    ngx_str_t             key;
    ngx_uint_t            i;
    model_rec_t          *rec;
    sim_member_t         *member;
    ngx_etcd_register_t  *reg;

    member = proc->data;

    for (i = 0; i < SIM_REGISTERS; i++) {
        reg = &member->registers[i];
        key = sim_key("%V", &reg->key);

        rec = model_get(model.store, &key);

        if (rec == NULL || rec->lease == 0 || model_lease(rec->lease) == NULL) {
            return 0;
        }

        /* nobody else registers the first key: the record is the process's */

        if (i == 0
            && (reg->session.state != NGX_ETCD_SESSION_HELD
                || rec->lease != reg->session.lease.id
                || rec->value.len != reg->value.len
                || ngx_memcmp(rec->value.data, reg->value.data,
                              rec->value.len)
                   != 0))
        {
            return 0;
        }
    }

    return 1;
}


static void
sim_register_leave(sim_proc_t *proc)
{
    ngx_uint_t     i;
    sim_member_t  *member;

    member = proc->data;

    for (i = 0; i < SIM_REGISTERS; i++) {
        ngx_etcd_register_end(&member->registers[i], sim_register_ended,
                              member);
    }
}


static void
sim_register_ended(void *data)
{
    sim_member_t *member = data;

    member->ended++;
}


static ngx_uint_t
sim_register_left(sim_proc_t *proc)
{
    sim_member_t  *member;

    member = proc->data;

    return member->ended == SIM_REGISTERS;
}
