
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Keys of a few addresses, as the agent has them, beside a model:
 *
 *     addresses WHAT SEED ROUNDS          random "changes"; with other "owners"
 *                                         in between; with "kills" of owners
 *                                         at some instruction
 *     instructions KEYS                   for one key of an address, of so
 *                                         many
 *     members N                           instructions for one member of a key
 *                                         that has so many
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <sys/ptrace.h>
#include <ngx_etcd_commit.h>
#include <ngx_etcd_index.h>
#include <ngx_etcd_member.h>
#include "test_newer.h"
#include "unit_members.h"


#define NGX_ETCD_UNIT_KEYS       1024
#define NGX_ETCD_UNIT_ADDRESSES  4
#define NGX_ETCD_UNIT_REVISIONS  64
#define NGX_ETCD_UNIT_BATCH      400
#define NGX_ETCD_UNIT_FEW        4
#define NGX_ETCD_UNIT_STEPS      4000
#define NGX_ETCD_UNIT_MOST       1000000


typedef struct {
    ngx_etcd_zone_t       *zone;
    ngx_etcd_member_set_t *set;
    ngx_pool_t            *pool;
    ngx_etcd_index_t       index;
    ngx_array_t            ops;
    ngx_etcd_commit_t      commit;
    ngx_uint_t             other;    /* pieces of the slab, beside entries */

    /* of each key: its revision, 0: it is not there */

    uint64_t               revision[NGX_ETCD_UNIT_KEYS];
    ngx_uint_t             address[NGX_ETCD_UNIT_KEYS];
} ngx_etcd_unit_keys_t;


static ngx_etcd_unit_keys_t  ngx_etcd_unit_keys;


static void
ngx_etcd_unit_member(ngx_etcd_member_t *member, ngx_uint_t address,
    ngx_uint_t weight)
{
    struct sockaddr_in  *sin;

    ngx_memzero(member, sizeof(ngx_etcd_member_t));

    sin = (struct sockaddr_in *) &member->sockaddr;
    sin->sin_family = AF_INET;
    sin->sin_port = htons(80);
    sin->sin_addr.s_addr = htonl(0x0a000000 + address);

    member->socklen = sizeof(struct sockaddr_in);
    member->attr.weight = weight;
    member->name_len = ngx_sprintf(member->name, "10.0.0.%ui:80", address)
                       - member->name;
}


static ngx_etcd_op_t *
ngx_etcd_unit_op(ngx_etcd_unit_keys_t *keys, ngx_etcd_op_e op, ngx_uint_t slot,
    uint32_t old, uint64_t revision)
{
    ngx_etcd_op_t  *o;

    o = ngx_array_push(&keys->ops);

    ngx_memzero(o, sizeof(ngx_etcd_op_t));

    o->op = op;
    o->slot = slot;
    o->old = old;
    o->revision = revision;

    return o;
}


static void
ngx_etcd_unit_delete(ngx_etcd_unit_keys_t *keys, ngx_etcd_key_t *key,
    uint64_t revision)
{
    ngx_etcd_op_t   *op;
    ngx_etcd_reg_t  *reg;

    reg = key->regs;

    op = ngx_etcd_unit_op(keys, NGX_ETCD_OP_REMOVE, reg->slot, reg->entry,
                          revision);
    op->shown = ngx_etcd_index_remove(&keys->index, key, &key->regs);
}


/* a key that was just being replaced is read again, and is there once */

static ngx_int_t
ngx_etcd_unit_own(ngx_etcd_unit_keys_t *keys)
{
    ngx_etcd_key_t  *key;

    if (ngx_etcd_commit_recover(keys->zone, keys->set, 0) != NGX_OK
        || ngx_etcd_index_create(&keys->index, keys->set, NULL,
                                 keys->pool->log)
           != NGX_OK
        || ngx_etcd_index_read(&keys->index, keys->zone, 0, 0) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_memzero(&keys->commit, sizeof(ngx_etcd_commit_t));

    /* all of it was listed then */

    keys->commit.ops = &keys->ops;
    keys->commit.revision = NGX_ETCD_UNIT_REVISIONS;
    keys->ops.nelts = 0;

    for (key = ngx_etcd_index_first(&keys->index);
         key != NULL;
         key = ngx_etcd_index_next(&keys->index, key))
    {
        if (key->twice && key->entry.mod_revision == 0) {
            ngx_etcd_unit_delete(keys, key, 0);
            key->twice = 0;
        }
    }

    return ngx_etcd_commit(keys->zone, keys->set, &keys->commit);
}


static ngx_int_t
ngx_etcd_unit_put(ngx_etcd_unit_keys_t *keys, ngx_etcd_key_t *key,
    ngx_etcd_reg_t *reg, ngx_uint_t address, uint64_t revision)
{
    u_char                  payload[NGX_ETCD_MEMBER_PACK_MAX];
    uint32_t                slot, entry;
    ngx_etcd_op_t          *op;
    ngx_etcd_member_t       member;
    ngx_etcd_entry_data_t   data;
    ngx_etcd_slot_entry_t   known;

    ngx_etcd_unit_member(&member, address, 1 + random() % 100);

    ngx_memzero(&data, sizeof(ngx_etcd_entry_data_t));

    data.key = key->entry.key;
    data.payload = payload;
    data.len = ngx_etcd_member_pack(payload, &member);
    data.mod_revision = revision;

    if (ngx_etcd_slot_index_slot(&keys->index.slots, keys->zone, 0,
                                 (u_char *) &member.sockaddr, member.socklen,
                                 &slot)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (reg != NULL && random() % 2) {
        op = ngx_etcd_unit_op(keys, NGX_ETCD_OP_TOUCH, slot, reg->entry,
                              revision);

        ngx_etcd_slot_index_renew(&keys->index.slots, reg, revision);
        op->shown = ngx_etcd_slot_index_newest(reg->address)->entry;

        return NGX_OK;
    }

    if (ngx_etcd_entry_create(keys->zone, keys->set, &data, 0, &entry)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    op = ngx_etcd_unit_op(keys, NGX_ETCD_OP_PUT, slot, reg ? reg->entry : 0,
                          revision);
    op->entry = entry;

    if (reg != NULL) {
        reg->entry = entry;
        ngx_etcd_slot_index_renew(&keys->index.slots, reg, revision);

    } else {
        ngx_etcd_slot_index_entry(&known, keys->zone,
                                  ngx_etcd_zone_at(keys->zone, entry));
        reg = ngx_etcd_index_add(&keys->index, key, &known, slot);
    }

    op->shown = ngx_etcd_slot_index_newest(reg->address)->entry;

    return NGX_OK;
}


/* something with that key, in the model as well */

static ngx_int_t
ngx_etcd_unit_change(ngx_etcd_unit_keys_t *keys, ngx_uint_t n)
{
    u_char           buf[NGX_INT_T_LEN];
    uint64_t         revision;
    ngx_str_t        name;
    ngx_uint_t       address;
    ngx_etcd_key_t  *key;

    name.data = buf;
    name.len = ngx_sprintf(buf, "%ui", n) - buf;
    key = ngx_etcd_index_key(&keys->index, &name);

    revision = 1 + random() % NGX_ETCD_UNIT_REVISIONS;
    address = random() % NGX_ETCD_UNIT_ADDRESSES;

    if (key->regs != NULL
        && (random() % 3 == 0 || address != keys->address[n]))
    {
        keys->revision[n] = 0;
        ngx_etcd_unit_delete(keys, key, revision);
        return NGX_OK;
    }

    keys->revision[n] = revision;
    keys->address[n] = address;

    return ngx_etcd_unit_put(keys, key, key->regs, address, revision);
}


/* pieces of the slab */

static ngx_uint_t
ngx_etcd_unit_used(ngx_etcd_zone_t *zone)
{
    ngx_uint_t        i, used;
    ngx_slab_pool_t  *shpool;

    used = 0;
    shpool = zone->shpool;

    for (i = 0; i < ngx_pagesize_shift - shpool->min_shift; i++) {
        used += shpool->stats[i].used;
    }

    return used;
}


/* entries of a ring */

static ngx_uint_t
ngx_etcd_unit_count(ngx_etcd_entry_t *ring)
{
    ngx_uint_t         n;
    ngx_etcd_entry_t  *entry;

    n = 0;
    entry = ring;

    while (entry != NULL && n <= NGX_ETCD_UNIT_KEYS) {
        n++;
        entry = (entry->next != ring) ? entry->next : NULL;
    }

    return n;
}


/* no entry is lost; nginx's slab is of no use while one is being freed */

static ngx_uint_t
ngx_etcd_unit_whole(ngx_etcd_unit_keys_t *keys)
{
    ngx_uint_t  i, n;

    n = ngx_etcd_unit_count(keys->set->commit.pending);

    for (i = 0; i < keys->set->nslots; i++) {
        n += ngx_etcd_unit_count(ngx_etcd_member_set_slot(keys->set, i)->entry);
    }

    /* chunks, and a directory and a ring that are less than a page */

    n += keys->set->nslots / NGX_ETCD_MEMBER_SET_SLOTS;
    n += (keys->set->chunks != NULL) + (keys->set->ring.slots != NULL);

    return ngx_etcd_unit_used(keys->zone) == keys->other + n;
}


/* the fault of a slot's ring; the model is made from it, or checked */

static char *
ngx_etcd_unit_slot(ngx_etcd_unit_keys_t *keys, ngx_etcd_slot_t *slot,
    ngx_uint_t learn, ngx_uint_t *n)
{
    ngx_uint_t               key, address;
    ngx_etcd_entry_t        *entry;
    ngx_etcd_member_pack_t   record;

    entry = slot->entry;

    do {
        if (entry->next->prev != entry) {
            return "prev";
        }

        if (test_newer(entry, entry->mod_revision, slot->entry,
                       slot->entry->mod_revision))
        {
            return "a newer one does not show";
        }

        ngx_etcd_member_pack_read(&record, ngx_etcd_entry_payload(entry));
        address = record.sockaddr[7];
        key = ngx_atoi(ngx_etcd_entry_key(entry), entry->key_len);

        if (key >= NGX_ETCD_UNIT_KEYS) {
            return "no key";
        }

        if (learn) {
            if (keys->revision[key] != 0) {
                return "twice";
            }

            keys->revision[key] = entry->mod_revision;
            keys->address[key] = address;
        }

        if (keys->revision[key] != entry->mod_revision
            || keys->address[key] != address)
        {
            return "another revision or address";
        }

        if (++*n > NGX_ETCD_UNIT_KEYS) {
            return "endless";
        }

        entry = entry->next;

    } while (entry != slot->entry);

    return NULL;
}


static char *
ngx_etcd_unit_check(ngx_etcd_unit_keys_t *keys, ngx_uint_t learn)
{
    char             *wrong;
    ngx_uint_t        i, n, members;
    ngx_etcd_slot_t  *slot;

    if (learn) {
        ngx_memzero(keys->revision, sizeof(keys->revision));
    }

    n = 0;
    members = 0;

    for (i = 0; i < keys->set->nslots; i++) {
        slot = ngx_etcd_member_set_slot(keys->set, i);

        if (slot->entry == NULL) {
            continue;
        }

        members++;

        wrong = ngx_etcd_unit_slot(keys, slot, learn, &n);
        if (wrong != NULL) {
            return wrong;
        }
    }

    if (members != keys->set->commit.nmembers) {
        return "the number of members";
    }

    for (i = 0; i < NGX_ETCD_UNIT_KEYS; i++) {
        n -= (keys->revision[i] != 0);
    }

    if (n != 0) {
        return "the number of entries";
    }

    if (!ngx_etcd_unit_whole(keys)) {
        return "an entry is lost";
    }

    return (keys->set->commit.pending || keys->set->commit.unfinished)
           ? "left behind" : NULL;
}


/* so many changes, published: with other owners in between, if there are any */

static char *
ngx_etcd_unit_batch(ngx_etcd_unit_keys_t *keys, ngx_uint_t n, ngx_uint_t owners)
{
    ngx_int_t   rc;
    ngx_uint_t  i;

    keys->ops.nelts = 0;
    keys->commit.done = 0;
    keys->commit.until = 1;

    for (i = 0; i < n; i++) {
        if (ngx_etcd_unit_change(keys, random() % NGX_ETCD_UNIT_KEYS)
            != NGX_OK)
        {
            return "no memory";
        }
    }

    for ( ;; ) {
        rc = ngx_etcd_commit(keys->zone, keys->set, &keys->commit);

        if (rc == NGX_OK) {
            return ngx_etcd_unit_check(keys, 0);
        }

        if (rc != NGX_AGAIN) {
            return "the mutex is held";
        }

        if (owners && random() % 3 == 0) {
            ngx_etcd_index_destroy(&keys->index);

            return (ngx_etcd_unit_own(keys) == NGX_OK)
                   ? ngx_etcd_unit_check(keys, 1) : "no index";
        }
    }
}


/* the next instructions of the child: how many, at most so many */

static ngx_uint_t
ngx_etcd_unit_step(pid_t pid, ngx_uint_t most)
{
    int         status;
    ngx_uint_t  n;

    for (n = 0; n < most; n++) {
        if (ptrace(PTRACE_SINGLESTEP, pid, 0, 0) == -1
            || waitpid(pid, &status, 0) == -1
            || !WIFSTOPPED(status)
            || WSTOPSIG(status) != SIGTRAP)
        {
            break;
        }
    }

    return n;
}


/*
 * Does it in a process that is killed when it is done, or after so many
 * instructions: how many it took.
 */

static ngx_uint_t
ngx_etcd_unit_traced(ngx_etcd_unit_keys_t *keys,
    void (*handler)(ngx_etcd_unit_keys_t *keys), ngx_uint_t most)
{
    int         status;
    pid_t       pid;
    ngx_uint_t  n;

    pid = fork();

    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        handler(keys);
        raise(SIGSTOP);
        _exit(0);
    }

    if (pid == -1 || waitpid(pid, &status, 0) == -1 || !WIFSTOPPED(status)) {
        return 0;
    }

    n = ngx_etcd_unit_step(pid, most);

    while (!ngx_etcd_unit_whole(keys) && ngx_etcd_unit_step(pid, 1) != 0) {
        n++;
    }

    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);

    return n;
}


static void
ngx_etcd_unit_publish(ngx_etcd_unit_keys_t *keys)
{
    (void) ngx_etcd_commit(keys->zone, keys->set, &keys->commit);
}


/* an owner is killed, and the next one comes */

static char *
ngx_etcd_unit_kill(ngx_etcd_unit_keys_t *keys)
{
    ngx_uint_t  i;

    keys->ops.nelts = 0;
    keys->commit.done = 0;
    keys->commit.until = 0;

    for (i = 0; i < NGX_ETCD_UNIT_FEW; i++) {
        if (ngx_etcd_unit_change(keys, random() % NGX_ETCD_UNIT_KEYS)
            != NGX_OK)
        {
            return "no memory";
        }
    }

    if (ngx_etcd_unit_traced(keys, ngx_etcd_unit_publish,
                             1 + random() % NGX_ETCD_UNIT_STEPS)
        == 0)
    {
        return "ptrace";
    }

    (void) ngx_shmtx_force_unlock(&keys->zone->shpool->mutex, ngx_pid);

    ngx_etcd_index_destroy(&keys->index);

    return (ngx_etcd_unit_own(keys) == NGX_OK)
           ? ngx_etcd_unit_check(keys, 1) : "no index";
}


static ngx_int_t
ngx_etcd_unit_begin(ngx_etcd_unit_keys_t *keys, ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, ngx_pool_t *pool)
{
    ngx_memzero(keys, sizeof(ngx_etcd_unit_keys_t));

    keys->zone = zone;
    keys->set = set;
    keys->pool = pool;
    keys->other = ngx_etcd_unit_used(zone);

    return (ngx_etcd_zone_claim(zone, 0) == NGX_OK
            && ngx_array_init(&keys->ops, pool, NGX_ETCD_UNIT_BATCH,
                              sizeof(ngx_etcd_op_t))
               == NGX_OK)
           ? ngx_etcd_unit_own(keys) : NGX_ERROR;
}


static void
ngx_etcd_unit_finish(ngx_etcd_unit_keys_t *keys)
{
    ngx_etcd_index_destroy(&keys->index);
    ngx_etcd_zone_release(keys->zone);
}


static void
ngx_etcd_unit_addresses(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_pool_t *pool, ngx_str_t *how, ngx_uint_t seed, ngx_uint_t rounds)
{
    char                  *wrong;
    ngx_uint_t             i;
    ngx_etcd_unit_keys_t  *keys;

    keys = &ngx_etcd_unit_keys;
    srandom(seed);

    wrong = (ngx_etcd_unit_begin(keys, zone, set, pool) == NGX_OK)
            ? NULL : "no index";

    for (i = 0; i < rounds && wrong == NULL; i++) {
        wrong = (how->data[0] == 'k')
                ? ngx_etcd_unit_kill(keys)
                : ngx_etcd_unit_batch(keys,
                                      1 + random() % NGX_ETCD_UNIT_BATCH,
                                      how->data[0] == 'o');
    }

    ngx_etcd_unit_finish(keys);

    printf("addresses: %lu %s\n", (unsigned long) i, wrong ? wrong : "ok");
}


/* the oldest key of an address becomes the newest one */

static void
ngx_etcd_unit_oldest(ngx_etcd_unit_keys_t *keys)
{
    ngx_str_t        name;
    ngx_etcd_op_t   *op;
    ngx_etcd_reg_t  *reg;

    ngx_str_set(&name, "0");

    reg = ((ngx_etcd_key_t *) ngx_etcd_index_find(&keys->index, &name))->regs;

    op = ngx_etcd_unit_op(keys, NGX_ETCD_OP_TOUCH, reg->slot,
                          reg->entry, (uint64_t) 1 << 32);

    ngx_etcd_slot_index_renew(&keys->index.slots, reg, op->revision);
    op->shown = ngx_etcd_slot_index_newest(reg->address)->entry;

    ngx_etcd_unit_publish(keys);
}


/* of so many keys of one address */

static void
ngx_etcd_unit_instructions(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_pool_t *pool, ngx_uint_t n)
{
    u_char                 buf[NGX_INT_T_LEN];
    ngx_str_t              name;
    ngx_uint_t             i, steps;
    ngx_etcd_key_t        *key;
    ngx_etcd_unit_keys_t  *keys;

    keys = &ngx_etcd_unit_keys;
    name.data = buf;
    steps = 0;

    if (ngx_etcd_unit_begin(keys, zone, set, pool) != NGX_OK) {
        return;
    }

    for (i = 0; i < n; i++) {
        name.len = ngx_sprintf(buf, "%ui", i) - buf;
        key = ngx_etcd_index_key(&keys->index, &name);

        if (key == NULL
            || ngx_etcd_unit_put(keys, key, NULL, 1, i + 1) != NGX_OK)
        {
            break;
        }
    }

    ngx_etcd_unit_publish(keys);

    keys->ops.nelts = 0;
    keys->commit.done = 0;

    if (i == n) {
        steps = ngx_etcd_unit_traced(keys, ngx_etcd_unit_oldest,
                                     NGX_ETCD_UNIT_MOST);
    }

    printf("instructions: %lu\n", (unsigned long) steps);

    ngx_etcd_unit_finish(keys);
}


/*
 * The first member of a key, which is the last one of its list, is found, and
 * another one leaves: who removes members walks through the list.
 */

static void
ngx_etcd_unit_leave(ngx_etcd_unit_keys_t *keys)
{
    ngx_str_t           name;
    ngx_etcd_key_t     *key;
    ngx_etcd_member_t   member;

    ngx_str_set(&name, "0");

    key = ngx_etcd_index_find(&keys->index, &name);
    ngx_etcd_unit_member(&member, 0, 1);

    if (ngx_etcd_index_reg(&keys->index, key, (u_char *) &member.sockaddr,
                           member.socklen)
        != NULL)
    {
        (void) ngx_etcd_index_remove(&keys->index, key, &key->regs);
    }
}


static void
ngx_etcd_unit_of_key(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_pool_t *pool, ngx_uint_t n)
{
    ngx_str_t              name;
    ngx_uint_t             i, found, steps;
    ngx_etcd_key_t        *key;
    ngx_etcd_reg_t        *reg;
    ngx_etcd_member_t      member;
    ngx_etcd_unit_keys_t  *keys;

    keys = &ngx_etcd_unit_keys;

    if (ngx_etcd_unit_begin(keys, zone, set, pool) != NGX_OK) {
        return;
    }

    ngx_str_set(&name, "0");
    key = ngx_etcd_index_key(&keys->index, &name);

    for (i = 0; i < n; i++) {
        if (ngx_etcd_unit_put(keys, key, NULL, i, 1) != NGX_OK) {
            return;
        }
    }

    ngx_etcd_unit_publish(keys);

    found = 0;

    for (i = 0; i <= n; i++) {
        ngx_etcd_unit_member(&member, i, 1);

        reg = ngx_etcd_index_reg(&keys->index, key,
                                 (u_char *) &member.sockaddr, member.socklen);
        found += (reg != NULL && reg->slot == i);
    }

    steps = ngx_etcd_unit_traced(keys, ngx_etcd_unit_leave,
                                 NGX_ETCD_UNIT_MOST);

    printf("members: %lu %lu\n", (unsigned long) found,
           (unsigned long) steps);

    ngx_etcd_unit_finish(keys);
}


ngx_uint_t
ngx_etcd_unit_address(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_pool_t *pool, ngx_str_t *value, ngx_uint_t *arg)
{
    u_char  *name;

    name = value[0].data;

    if (ngx_strcmp(name, "addresses") == 0) {
        ngx_etcd_unit_addresses(zone, set, pool, &value[1], arg[2], arg[3]);

    } else if (ngx_strcmp(name, "instructions") == 0) {
        ngx_etcd_unit_instructions(zone, set, pool, arg[1]);

    } else if (ngx_strcmp(name, "members") == 0) {
        ngx_etcd_unit_of_key(zone, set, pool, arg[1]);

    } else {
        return 0;
    }

    return 1;
}
