
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_address.h>
#include <ngx_etcd_check_share.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_member.h>
#include <ngx_etcd_str.h>


/* Said in place of addresses that are too many. */

#define NGX_ETCD_CHECK_SHARE_MANY  "*"

/* ms between values of an observer, and for how long one counts */

#define ngx_etcd_check_share_beat(o)   ((o)->interval / 2)
#define ngx_etcd_check_share_valid(o)  ((o)->interval / 4 * 3)

/* bytes of "=COUNT:HASH" */

#define NGX_ETCD_CHECK_SHARE_WHOM  (sizeof("=:") - 1 + NGX_INT_T_LEN + 8)


ngx_str_t  ngx_etcd_check_share_words[] = {
    ngx_string("alone"),
    ngx_string("follows"),
    ngx_string("observes"),
    ngx_null_string
};


/*
 * The first value that is seen may be an old one, of an observer that is gone:
 * it counts from the next one on.  A candidate that has not said anything has
 * an empty value.
 */

static void
ngx_etcd_check_share_seen(void *check, ngx_str_t *value, int64_t revision,
    ngx_uint_t own)
{
    ngx_etcd_check_observer_t *observer = check;

    if (observer->own != own) {
        observer->own = own;
        observer->alive = 0;
        observer->fresh = 0;
        observer->wake(observer->data);
    }

    if (own || revision == 0 || revision == observer->revision) {
        return;
    }

    if (value->len != 0 && (observer->alive || observer->revision != 0)) {
        observer->alive = 1;
        observer->fresh = 1;
        observer->heard = ngx_current_msec;
        observer->len = ngx_min(value->len, NGX_ETCD_CHECK_SHARE_VALUE);

        ngx_memcpy(observer->value, value->data, observer->len);

        observer->wake(observer->data);
    }

    observer->revision = revision;
}


void
ngx_etcd_check_share_init(ngx_etcd_check_observer_t *observer)
{
    if (observer->conf != NULL) {
        observer->conf->seen = ngx_etcd_check_share_seen;
        observer->conf->check = observer;
    }
}


void
ngx_etcd_check_share_done(ngx_etcd_check_observer_t *observer)
{
    if (observer->conf != NULL) {
        observer->conf->seen = NULL;
        observer->conf->check = NULL;
    }
}


void
ngx_etcd_check_share_changed(ngx_etcd_check_observer_t *observer)
{
    observer->changed = 1;

    if (observer->role == NGX_ETCD_CHECK_OBSERVES) {
        observer->wake(observer->data);
    }
}


/* Appends the name of a member that has failed.  NGX_DECLINED: no room. */

static ngx_int_t
ngx_etcd_check_share_name(ngx_etcd_check_observer_t *observer, ngx_uint_t n)
{
    size_t                   i;
    ngx_etcd_slot_t         *member;
    ngx_etcd_member_pack_t   record;

    member = ngx_etcd_member_set_slot(observer->service->conf->set, n);

    if (member->entry == NULL
        || member->uid != observer->slots->slot[n].uid)
    {
        return NGX_OK;
    }

    ngx_etcd_member_pack_read(&record, ngx_etcd_entry_payload(member->entry));

    if (record.name.len + 1 > NGX_ETCD_CHECK_SHARE_VALUE - observer->len) {
        return NGX_DECLINED;
    }

    /* the path of a socket may have spaces */

    for (i = 0; i < record.name.len; i++) {
        if (record.name.data[i] <= ' ') {
            return NGX_DECLINED;
        }
    }

    observer->value[observer->len++] = ' ';

    ngx_memcpy(&observer->value[observer->len], record.name.data,
               record.name.len);
    observer->len += record.name.len;

    return NGX_OK;
}


/* Says which members have failed by the checks of this nginx, and of whom. */

static ngx_int_t
ngx_etcd_check_share_say(ngx_etcd_check_observer_t *observer)
{
    size_t                   head;
    uint32_t                 hash;
    ngx_int_t                rc;
    ngx_str_t                value;
    ngx_uint_t               n, judged;
    ngx_etcd_zone_t         *zone;
    ngx_etcd_check_slots_t  *slots;

    zone = observer->service->conf->zone;
    slots = observer->slots;

    if (observer->conf->proclaim == NULL) {
        return NGX_AGAIN;
    }

    hash = 0;
    judged = 0;

    for (n = 0; n < slots->nslots; n++) {
        if (slots->slot[n].judged) {
            hash += slots->slot[n].hash;
            judged++;
        }
    }

    head = ngx_snprintf(observer->value, NGX_ETCD_CHECK_SHARE_VALUE - 2,
                        "%V %uD =%ui:%xD", &ngx_cycle->hostname,
                        ++observer->number, judged, hash)
           - observer->value;
    observer->len = head;

    rc = ngx_etcd_zone_lock_owned(zone, 0);
    if (rc != NGX_OK) {
        return NGX_AGAIN;
    }

    for (n = 0; n < slots->nslots && rc == NGX_OK; n++) {
        if (slots->slot[n].failed) {
            rc = ngx_etcd_check_share_name(observer, n);
        }
    }

    ngx_etcd_zone_unlock(zone);

    if (rc != NGX_OK) {
        observer->len = ngx_cpymem(&observer->value[head],
                                   " " NGX_ETCD_CHECK_SHARE_MANY,
                                   sizeof(NGX_ETCD_CHECK_SHARE_MANY))
                        - observer->value;
    }

    value.data = observer->value;
    value.len = observer->len;

    return observer->conf->proclaim(observer->conf->run, &value);
}


/* Takes the next word off a list. */

static void
ngx_etcd_check_share_next(ngx_str_t *list, ngx_str_t *word)
{
    if (!ngx_etcd_str_cut(list, ' ', word, list)) {
        *word = *list;
        list->len = 0;
    }
}


/* The members of an address that is named. */

static void
ngx_etcd_check_share_mark(ngx_etcd_node_t *node, void *data)
{
    ngx_uint_t              n;
    ngx_etcd_check_slots_t *slots = data;

    n = ((ngx_etcd_reg_t *) node)->slot;

    if (n < slots->nslots && slots->slot[n].uid != 0) {
        slots->slot[n].named = 1;
    }
}


static ngx_uint_t
ngx_etcd_check_share_read(ngx_etcd_check_observer_t *observer, ngx_str_t *list)
{
    ngx_str_t                name;
    ngx_uint_t               n, named;
    ngx_etcd_member_t        member;
    ngx_etcd_check_slots_t  *slots;

    slots = observer->slots;
    named = 0;

    for (n = 0; n < slots->nslots; n++) {
        slots->slot[n].named = 0;
    }

    while (list->len != 0) {
        ngx_etcd_check_share_next(list, &name);

        if (ngx_etcd_address_shown(&member, &name) == NGX_OK) {
            ngx_etcd_slot_index_each(&observer->service->diff.index.slots,
                                     (u_char *) &member.sockaddr,
                                     member.socklen, ngx_etcd_check_share_mark,
                                     slots);
        }
    }

    for (n = 0; n < slots->nslots; n++) {
        named += slots->slot[n].named;
    }

    return named;
}


/*
 * Returns 1 if the observer has judged those members that are known here, or is
 * of a release that does not say whom.
 */

static ngx_uint_t
ngx_etcd_check_share_agrees(ngx_etcd_check_observer_t *observer,
    ngx_str_t *list)
{
    u_char     buf[NGX_ETCD_CHECK_SHARE_WHOM];
    ngx_str_t  whom, here;

    if (list->len == 0 || list->data[0] != '=') {
        return 1;
    }

    ngx_etcd_check_share_next(list, &whom);

    here.data = buf;
    here.len = ngx_sprintf(buf, "=%ui:%xD", observer->slots->nmembers,
                           observer->slots->hash) - buf;

    return ngx_etcd_str_equal(&whom, &here);
}


/*
 * The members of two nginxes differ for a moment after a change, and while the
 * observer has no result of one: meanwhile its silence on a member says
 * nothing.  Returns 0 if that lasts.
 */

static ngx_uint_t
ngx_etcd_check_share_same(ngx_etcd_check_observer_t *observer,
    ngx_uint_t agrees, ngx_str_t *host)
{
    if (agrees) {
        observer->agreed = ngx_current_msec;
        observer->differs = 0;
        return 1;
    }

    if (ngx_current_msec - observer->agreed < 2 * observer->interval) {
        return 1;
    }

    if (!observer->differs) {
        observer->differs = 1;

        ngx_log_error(NGX_LOG_NOTICE, observer->service->log, 0,
                      "etcd: upstream \"%V\": the observer on %V checks other "
                      "members than this nginx has, which checks its own",
                      &observer->service->conf->name, ngx_etcd_shown(host));
    }

    return 0;
}


/* A word does not undo what this nginx has found by itself. */

static void
ngx_etcd_check_share_tell(ngx_etcd_check_observer_t *observer, ngx_uint_t n,
    ngx_str_t *host)
{
    ngx_etcd_check_slot_t  *slot;

    slot = &observer->slots->slot[n];
    slot->told = slot->named;

    if (!slot->found) {
        if (observer->told(observer->data, n, slot->named, host) != NGX_OK) {
            slot->told = !slot->named;
            observer->heeded = 0;
        }

        return;
    }

    if (slot->failed != slot->named) {
        slot->contrary = 1;
        ngx_etcd_check_slots_renew(observer->slots, n);
    }
}


/* Reads a value.  Returns 0 if it is not believed. */

static ngx_uint_t
ngx_etcd_check_share_hear(ngx_etcd_check_observer_t *observer)
{
    uint32_t                 hash;
    ngx_str_t                host, number, list;
    ngx_uint_t               n, agrees;
    ngx_etcd_check_slot_t   *slot;
    ngx_etcd_check_slots_t  *slots;

    slots = observer->slots;

    list.data = observer->value;
    list.len = observer->len;

    if (!ngx_etcd_str_cut(&list, ' ', &host, &list)) {
        return 0;
    }

    ngx_etcd_check_share_next(&list, &number);

    agrees = ngx_etcd_check_share_agrees(observer, &list);

    if (!ngx_etcd_check_share_same(observer, agrees, &host)
        || (list.len == 1 && list.data[0] == NGX_ETCD_CHECK_SHARE_MANY[0]))
    {
        return 0;
    }

    hash = ngx_crc32_long(list.data, list.len);

    if (observer->role == NGX_ETCD_CHECK_FOLLOWS
        && observer->heeded
        && observer->list == hash
        && observer->generation == slots->generation)
    {
        return 1;
    }

    observer->list = hash;
    observer->generation = slots->generation;
    observer->heeded = agrees;

    if (ngx_etcd_check_share_read(observer, &list) > slots->nmembers / 2) {
        return 0;
    }

    for (n = 0; n < slots->nslots; n++) {
        slot = &slots->slot[n];

        if (slot->uid != 0 && slot->named != slot->told
            && (slot->named || agrees))
        {
            ngx_etcd_check_share_tell(observer, n, &host);
        }

        /* this nginx has found that by itself before it followed */

        if (slot->failed && !slot->told) {
            slot->contrary = 1;
        }

        slot->found &= (slot->failed | slot->told);
    }

    return 1;
}


/* All members are checked now: nobody else does it. */

static void
ngx_etcd_check_share_leave(ngx_etcd_check_slots_t *slots)
{
    ngx_uint_t              n;
    ngx_etcd_check_slot_t  *slot;

    for (n = 0; n < slots->nslots; n++) {
        slot = &slots->slot[n];

        if (slot->uid != 0) {
            ngx_etcd_check_slots_renew(slots, n);

            slot->judged = 0;
            slot->told = 0;
            slot->contrary = 0;
        }
    }
}


static void
ngx_etcd_check_share_role(ngx_etcd_check_observer_t *observer,
    ngx_etcd_check_role_e role)
{
    ngx_etcd_zone_t               *zone;
    ngx_etcd_member_set_checks_t  *checks;

    if (observer->role != role) {
        if (observer->role == NGX_ETCD_CHECK_FOLLOWS) {
            ngx_etcd_check_share_leave(observer->slots);
        }

        observer->role = role;
        observer->changed = 1;
        observer->shown = 0;
    }

    zone = observer->service->conf->zone;

    if (!observer->shown && ngx_etcd_zone_lock_owned(zone, 0) == NGX_OK) {
        checks = &observer->service->conf->set->checks;

        checks->role = role;
        checks->heard = ngx_etcd_clock();

        observer->shown = 1;

        ngx_etcd_zone_unlock(zone);
    }
}


/*
 * The observer says nothing before it has begun to check each member, nor while
 * it cannot check.
 */

static ngx_msec_t
ngx_etcd_check_share_observe(ngx_etcd_check_observer_t *observer)
{
    ngx_msec_t  beat, wait, since;

    ngx_etcd_check_share_role(observer, NGX_ETCD_CHECK_OBSERVES);

    beat = ngx_etcd_check_share_beat(observer);
    wait = observer->changed ? NGX_ETCD_CHECK_SHARE_LEAST : beat;
    since = ngx_current_msec - observer->said;

    if (since < wait) {
        return wait - since;
    }

    if (observer->slots->nfresh != 0
        || observer->slots->poor
        || !observer->service->diff.index.complete
        || ngx_etcd_check_share_say(observer) != NGX_OK)
    {
        return NGX_ETCD_CHECK_SHARE_AGAIN;
    }

    observer->said = ngx_current_msec;
    observer->changed = 0;
    observer->shown = 0;

    return beat;
}


ngx_msec_t
ngx_etcd_check_share(ngx_etcd_check_observer_t *observer)
{
    ngx_msec_t  since, valid;

    if (observer->conf == NULL) {
        return NGX_TIMER_INFINITE;
    }

    if (observer->own) {
        return ngx_etcd_check_share_observe(observer);
    }

    valid = ngx_etcd_check_share_valid(observer);
    since = ngx_current_msec - observer->heard;

    observer->alive = (observer->alive && since < valid);

    if (observer->alive && observer->fresh) {

        /* while the set is read again, its members cannot be found */

        if (!observer->service->diff.index.complete) {
            return NGX_ETCD_CHECK_SHARE_AGAIN;
        }

        observer->fresh = 0;
        observer->shown = 0;
        observer->doubted = !ngx_etcd_check_share_hear(observer);
    }

    ngx_etcd_check_share_role(observer,
                              (observer->alive && !observer->doubted)
                              ? NGX_ETCD_CHECK_FOLLOWS : NGX_ETCD_CHECK_ALONE);

    return observer->alive ? valid - since : NGX_TIMER_INFINITE;
}
