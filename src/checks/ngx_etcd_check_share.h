
/*
 * Copyright (C) nginx-etcd contributors
 *
 * One observer for many nginxes ("share=" of "etcd_check").  The nginx that
 * leads an election checks the members, and its candidate's value says which
 * ones have failed:
 *
 *     HOST NUMBER =COUNT:HASH ADDRESS ADDRESS ...
 *
 * It is put again twice in an interval, with another NUMBER.  The others follow
 * it: they do not check members that work, and leave out those that are named.
 * COUNT members were judged, by results; HASH is the sum of the CRC-32 of their
 * addresses, in hexadecimal.
 *
 * Nobody who follows is worse off than one who checks alone:
 *
 *     A verdict counts only while values of the observer arrive.  If none has
 *     for three quarters of an interval, each nginx checks all members at once,
 *     and goes on by itself: a member that has failed since is found within the
 *     interval in which its own check would have found it.
 *
 *     A member that is named is checked once by each that follows, and so is
 *     one that has failed a request.  While the results of an nginx contradict
 *     the observer's, that nginx decides about the member by its own, and what
 *     it has found by itself is not undone by the observer's word.
 *
 *     An observer that has not judged the same members says nothing of those
 *     that it does not name.  If that lasts for two intervals, it is not
 *     believed.
 *
 *     An observer that says that more than half of the members have failed is
 *     not believed: it may be cut off itself.
 *
 * The campaigner (elections/) runs the election.
 */


#ifndef _NGX_ETCD_CHECK_SHARE_H_INCLUDED_
#define _NGX_ETCD_CHECK_SHARE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_check_slots.h>
#include <ngx_etcd_election_slot.h>


/* ms, the shortest interval of checks that are shared */

#define NGX_ETCD_CHECK_SHARE_INTERVAL  1000

/* seconds: after it an observer that is gone has a successor */

#define NGX_ETCD_CHECK_SHARE_TTL       15

/* bytes of a value: with more members that have failed it is no verdict */

#define NGX_ETCD_CHECK_SHARE_VALUE     NGX_ETCD_ELECTION_SLOT_MAX_VALUE

/* ms between two values: many members may fail one after the other */

#define NGX_ETCD_CHECK_SHARE_LEAST     50

/* ms until a value that could not be put is tried again */

#define NGX_ETCD_CHECK_SHARE_AGAIN     20


/* How the configuration has it, and what joins checks and election. */

typedef struct {
    ngx_str_t                   key;          /* prefix of the election, without
                                                 a slash at its end */
    ngx_str_t                   zone;         /* len 0: there is one only */

    /*
     * Set by the checks of the agent, called by the campaigner: what the leader
     * says, at each change, and when there is none (revision 0).
     */
    void                      (*seen)(void *check, ngx_str_t *value,
                                      int64_t revision, ngx_uint_t own);
    void                       *check;

    /*
     * Set by the campaigner: what this nginx says as the leader.  NGX_AGAIN:
     * the former value is on its way, or this nginx does not lead.
     */
    ngx_int_t                 (*proclaim)(void *run, ngx_str_t *value);
    void                       *run;
} ngx_etcd_check_share_t;


/* in the zone: the numbers do not change */

typedef enum {
    NGX_ETCD_CHECK_ALONE = 0,
    NGX_ETCD_CHECK_FOLLOWS,
    NGX_ETCD_CHECK_OBSERVES
} ngx_etcd_check_role_e;


/* The observer as this process knows it, zeroed at first. */

typedef struct {
    /* set by the owner */

    ngx_etcd_check_share_t     *conf;         /* NULL: checks are not shared */
    ngx_etcd_service_t         *service;
    ngx_etcd_check_slots_t     *slots;
    ngx_msec_t                  interval;

    void                      (*wake)(void *data);  /* there is something new */

    /*
     * The observer on that host names a member now, or does not any more.  Not
     * NGX_OK: is called again.
     */
    ngx_int_t                 (*told)(void *data, ngx_uint_t n,
                                      ngx_uint_t failed, ngx_str_t *host);
    void                       *data;

    ngx_etcd_check_role_e       role;

    /* private */

    unsigned                    changed:1;    /* an own verdict: it is said
                                                 soon */

    int64_t                     revision;     /* of the last value; 0: none */
    ngx_msec_t                  heard;        /* ngx_current_msec of it */
    ngx_msec_t                  said;         /* likewise, of an own one
                                                 */
    uint32_t                    number;       /* of own values */
    ngx_msec_t                  agreed;       /* likewise, of the last one on
                                                 the same members */
    uint32_t                    list;         /* hash of the addresses */
    ngx_atomic_uint_t           generation;   /* of the set then */
    unsigned                    own:1;        /* this nginx leads */
    unsigned                    shown:1;      /* in the zone */
    unsigned                    alive:1;      /* "heard" is valid */
    unsigned                    doubted:1;    /* more than half have failed, or
                                                 too many to be named */
    unsigned                    fresh:1;      /* the value was not read yet */
    unsigned                    heeded:1;     /* all that it said was done */
    unsigned                    differs:1;    /* the observer has others */
    size_t                      len;
    u_char                      value[NGX_ETCD_CHECK_SHARE_VALUE];
} ngx_etcd_check_observer_t;


/* The words of the status, by role; an empty one at the end. */
extern ngx_str_t  ngx_etcd_check_share_words[];

#define ngx_etcd_check_share_word(role)                                       \
    ngx_etcd_check_share_words[ngx_min(role, NGX_ETCD_CHECK_OBSERVES)]

/* Joins and leaves the campaigner. */
void ngx_etcd_check_share_init(ngx_etcd_check_observer_t *observer);
void ngx_etcd_check_share_done(ngx_etcd_check_observer_t *observer);

/* This nginx has another verdict: an observer says so soon. */
void ngx_etcd_check_share_changed(ngx_etcd_check_observer_t *observer);

/*
 * Finds the role that this nginx has now, and puts or reads a value if one is
 * due; the slots are up to date.  Returns the ms until it is to be called
 * again.
 */
ngx_msec_t ngx_etcd_check_share(ngx_etcd_check_observer_t *observer);


#endif /* _NGX_ETCD_CHECK_SHARE_H_INCLUDED_ */
