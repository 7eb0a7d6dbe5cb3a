
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Declarations of the crash test: unit_crash.c stops a process after each
 * instruction that changes the zone, unit_crash_world.c makes a zone,
 * unit_crash_ops.c has what that process does in there, unit_crash_look.c what
 * can be seen of it, and unit_crash_check.c what the next owner does and what
 * must be true then.  unit_crash_map.c has all this of keys with variables.
 */


#ifndef _NGX_ETCD_UNIT_CRASH_H_INCLUDED_
#define _NGX_ETCD_UNIT_CRASH_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_commit.h>
#include <ngx_etcd_connection_count.h>
#include <ngx_etcd_counter.h>
#include <ngx_etcd_lock_table.h>
#include <ngx_etcd_reload.h>
#include <ngx_etcd_election_slot.h>
#include <ngx_etcd_view.h>
#include "unit_crash_map.h"


#define NGX_ETCD_CRASH_ZONE     (512 * 1024)
#define NGX_ETCD_CRASH_SETS     2
#define NGX_ETCD_CRASH_SLOTS    (4 * NGX_ETCD_MEMBER_SET_PIECE)
#define NGX_ETCD_CRASH_ENTRIES  256
#define NGX_ETCD_CRASH_BYTES    96      /* of a key and a payload */


/* an operation, which a process is killed in */

typedef struct {
    char                      *name;
    void                     (*prepare)(void);
    void                     (*run)(void);
} ngx_etcd_crash_op_t;


/* a registration, outside the zone */

typedef struct {
    uint32_t                   slot;
    uint32_t                   key_len;
    uint32_t                   len;
    uint64_t                   create_revision;
    uint64_t                   mod_revision;
    uint32_t                   gone;
    u_char                     bytes[NGX_ETCD_CRASH_BYTES];
} ngx_etcd_crash_entry_t;


/* a reader's copy of a set */

typedef struct {
    ngx_etcd_member_set_reader_t reader;
    ngx_int_t                    rc;
    uint64_t                     slots[NGX_ETCD_CRASH_SLOTS];   /* hashes */
} ngx_etcd_crash_reader_t;


/* all that the zone shows: before an operation, or after it */

typedef struct {
    ngx_etcd_crash_reader_t       readers[NGX_ETCD_CRASH_SETS];
    ngx_uint_t                    nentries[NGX_ETCD_CRASH_SETS];
    ngx_etcd_crash_entry_t        entries[NGX_ETCD_CRASH_SETS]
                                      [NGX_ETCD_CRASH_ENTRIES];
    uint64_t                      revisions[NGX_ETCD_CRASH_SETS];
    uint64_t                      content[NGX_ETCD_CRASH_SETS]; /* hash */
    uint64_t                      terms[NGX_ETCD_CRASH_SETS];
    uint64_t                      requests[NGX_ETCD_CRASH_SETS];
    uint64_t                      invalid[NGX_ETCD_CRASH_SETS]; /* hash */

    ngx_etcd_election_slot_hold_t hold;
    ngx_int_t                     slot_rc;
    ngx_etcd_election_slot_view_t slot;
    uint64_t                      until;
    uint64_t                      leaders;
    ngx_int_t                     endpoints_rc;
    uint64_t                      endpoints;                    /* hash */
    uint64_t                      events[NGX_ETCD_ZONE_EVENTS]; /* hashes */
    ngx_uint_t                    nevents;
    ngx_uint_t                    held;                         /* gauges */
    uint64_t                      measured;                     /* histogram */
    ngx_etcd_crash_map_state_t    maps;

    /* structures of the zone, in use or to be used again */

    ngx_uint_t                    sets;
    ngx_uint_t                    chunks;
    ngx_uint_t                    slots;
    ngx_uint_t                    stats;
    size_t                        room;         /* bytes */
} ngx_etcd_crash_state_t;


/* the zone as the process sees it that is killed, and what is in there */

typedef struct {
    ngx_etcd_zone_t            zone;
    ngx_etcd_member_set_t     *sets[NGX_ETCD_CRASH_SETS];
    uint32_t                   ids[NGX_ETCD_CRASH_SETS];
    ngx_etcd_election_slot_t  *slot;
    ngx_uint_t                 slot_id;
    ngx_etcd_lock_stats_t     *stats;
    ngx_etcd_lock_table_t     *table;
    ngx_etcd_lock_row_t       *row;
    ngx_etcd_atomic64_t       *note;           /* of the connection counts */
    uint64_t                   revision;       /* last written */

    ngx_pid_t                  victim;         /* is killed */
    ngx_pid_t                  other;          /* lives on */

    ngx_uint_t                 twice;          /* the next owner was killed */
    char                      *broken;         /* a next owner omits this, or
                                                  empty */
    ngx_etcd_crash_state_t    *before;
    ngx_etcd_crash_state_t    *after;
} ngx_etcd_crash_t;


extern ngx_etcd_crash_t           ngx_etcd_crash;
extern const ngx_etcd_crash_op_t  ngx_etcd_crash_ops[];    /* NULL ends it */
extern ngx_str_t                  ngx_etcd_crash_name;     /* of all that is
                                                              declared */


/* unit_crash.c: says what is wrong, and ends the process that checks */
void ngx_etcd_crash_fault(const char *fmt, ...)
    __attribute__((format(printf, 1, 2), noreturn));

/* unit_crash_world.c: a zone with something of everything in it */
ngx_int_t ngx_etcd_crash_world(void *addr, ngx_log_t *log);

/*
 * unit_crash_world.c: registrations are changed as an agent does it, all those
 * between begin and publish by one commit
 */
void ngx_etcd_crash_begin(void);
ngx_etcd_entry_t *ngx_etcd_crash_put(ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set, uint32_t slot, ngx_str_t *key,
    ngx_str_t *payload, uint64_t created, uint64_t revision,
    ngx_etcd_entry_t *old);
void ngx_etcd_crash_op(ngx_etcd_member_set_t *set, ngx_etcd_op_e op,
    uint32_t slot, ngx_etcd_entry_t *old, uint64_t revision);
void ngx_etcd_crash_publish(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    uint64_t revision);

/*
 * unit_crash_world.c: the same at the next revision, of set n; a key with a
 * reason is invalid, without one it is not any more
 */
void ngx_etcd_crash_set_key(ngx_uint_t n, uint32_t slot, char *key,
    char *payload);
void ngx_etcd_crash_do_key(ngx_uint_t n, ngx_etcd_op_e op, uint32_t slot,
    char *key);
void ngx_etcd_crash_commit(ngx_uint_t n);
void ngx_etcd_crash_refuse(char *key, char *reason);

/*
 * unit_crash_world.c: a set, what the election slot and the endpoints say, all
 * of it made of one number, and connections of a process
 */
ngx_etcd_member_set_t *ngx_etcd_crash_declare(ngx_str_t *name);
void ngx_etcd_crash_holds(int64_t n);
void ngx_etcd_crash_says(ngx_uint_t n);
void ngx_etcd_crash_connects(ngx_etcd_zone_t *zone, ngx_uint_t n);


/* unit_crash_look.c: what can be seen now */
void ngx_etcd_crash_look(ngx_etcd_crash_state_t *state);
void ngx_etcd_crash_look_words(ngx_etcd_crash_state_t *state);
void ngx_etcd_crash_look_events(ngx_etcd_crash_state_t *state);
void ngx_etcd_crash_structures(ngx_etcd_crash_state_t *state);
void ngx_etcd_crash_read(ngx_etcd_crash_reader_t *reader, ngx_uint_t n);
uint64_t ngx_etcd_crash_content(ngx_etcd_member_set_t *set);
uint64_t ngx_etcd_crash_requests(ngx_etcd_member_set_t *set);

/*
 * unit_crash_look.c: an address that is met once, since the structures were
 * looked at
 */
void ngx_etcd_crash_meet(void *p, size_t len, char *what);

/* unit_crash_look.c: takes all bytes that are free, and writes them */
size_t ngx_etcd_crash_fill(void);


/*
 * unit_crash_check.c: what the master and the next owner do: the mutex is
 * released, the zone taken over, and all that is in etcd listed
 */
void ngx_etcd_crash_unlock(void);
void ngx_etcd_crash_take_over(void);
void ngx_etcd_crash_catch_up(void);

/*
 * unit_crash_check.c: the process was killed; what others see, what the next
 * owner does, and what all see then.  Returns the bytes of the zone that
 * nobody has any more.
 */
size_t ngx_etcd_crash_check(void);


#endif /* _NGX_ETCD_UNIT_CRASH_H_INCLUDED_ */
