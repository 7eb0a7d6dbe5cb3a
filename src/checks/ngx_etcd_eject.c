
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_etcd_alloc.h>
#include <ngx_etcd_clock.h>
#include <ngx_etcd_counter.h>
#include <ngx_etcd_eject.h>
#include <ngx_etcd_event.h>
#include <ngx_etcd_member.h>
#include <ngx_etcd_option.h>
#include <ngx_etcd_str.h>


/* slots at a time under the mutex */

#define NGX_ETCD_EJECT_PIECE  64

/* of a window, of a time: nginx's notation */

#define NGX_ETCD_EJECT_WINDOW  10000
#define NGX_ETCD_EJECT_TIME    30
#define NGX_ETCD_EJECT_ANSWERS 20
#define NGX_ETCD_EJECT_SHARE   30

#define NGX_ETCD_EJECT_HTTP    1    /* contexts: not for stream */

#define NGX_ETCD_EJECT_MIN_WINDOW  1000              /* ms */
#define NGX_ETCD_EJECT_MAX_WINDOW  3600000
#define NGX_ETCD_EJECT_MAX_TIME    86400             /* s */


static void
ngx_etcd_eject_timer(ngx_event_t *ev)
{
    ngx_etcd_eject_t  *eject;

    eject = ev->data;

    if (ngx_etcd_zone_owned(eject->zone)
        && (eject->service == NULL || ngx_etcd_service_used(eject->service))
        && ngx_etcd_eject_step(eject, ngx_time()) == NGX_AGAIN)
    {
        ngx_post_event(ev, &ngx_posted_next_events);
        return;
    }

    ngx_add_timer(ev, eject->conf->window / NGX_ETCD_EJECT_STEPS);
}


static void *
ngx_etcd_eject_create(ngx_etcd_service_t *service, void *conf,
    ngx_pool_t *pool)
{
    ngx_etcd_eject_t  *eject;

    eject = ngx_pcalloc(pool, sizeof(ngx_etcd_eject_t));
    if (eject == NULL) {
        return NULL;
    }

    eject->conf = conf;
    eject->service = service;
    eject->zone = service->conf->zone;
    eject->set = service->conf->set;
    eject->name = &service->conf->name;
    eject->log = service->log;

    ngx_etcd_event_init_timer(&eject->timer, ngx_etcd_eject_timer, eject,
                              eject->log);

    ngx_add_timer(&eject->timer, eject->conf->window / NGX_ETCD_EJECT_STEPS);

    return eject;
}


void
ngx_etcd_eject_destroy(void *data)
{
    ngx_etcd_eject_t *eject = data;

    ngx_etcd_event_stop(&eject->timer);

    if (eject->members != NULL) {
        ngx_free(eject->members);
        eject->members = NULL;
    }

    if (eject->candidates != NULL) {
        ngx_free(eject->candidates);
        eject->candidates = NULL;
    }

    eject->allocated = 0;
}


static ngx_int_t
ngx_etcd_eject_grow(ngx_etcd_eject_t *eject, ngx_uint_t n)
{
    ngx_etcd_eject_member_t     *members;
    ngx_etcd_eject_candidate_t  *candidates;

    members = ngx_etcd_alloc_grow(eject->members,
                                  eject->allocated
                                  * sizeof(ngx_etcd_eject_member_t),
                                  n * sizeof(ngx_etcd_eject_member_t),
                                  eject->log);
    if (members == NULL) {
        return NGX_ERROR;
    }

    eject->members = members;

    candidates = ngx_etcd_alloc_grow(eject->candidates, 0,
                                     n * sizeof(ngx_etcd_eject_candidate_t),
                                     eject->log);
    if (candidates == NULL) {
        return NGX_ERROR;
    }

    eject->candidates = candidates;
    eject->allocated = n;

    return NGX_OK;
}


/* A step begins.  NGX_ERROR: no memory, the step is left out. */

static ngx_int_t
ngx_etcd_eject_prepare(ngx_etcd_eject_t *eject)
{
    ngx_int_t  rc;

    rc = ngx_etcd_member_set_annotate(eject->zone, eject->set);

    if (rc == NGX_ERROR && !eject->full) {
        eject->full = 1;
        ngx_log_error(NGX_LOG_ERR, eject->log, 0,
                      "etcd: upstream \"%V\": the zone is full, \"etcd_eject\" "
                      "does not count all members: increase \"zone\"",
                      eject->name);
    }

    if (eject->set->nslots > eject->allocated
        && ngx_etcd_eject_grow(eject, eject->set->nslots) != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_memzero(eject->steps, sizeof(eject->steps));
    eject->nmembers = 0;
    eject->nejected = 0;
    eject->nwell = 0;
    eject->nbad = 0;
    eject->ncandidates = 0;

    return NGX_OK;
}


/* The oldest step of the window gives way to what was counted since then. */

static void
ngx_etcd_eject_tally(ngx_etcd_eject_t *eject, ngx_etcd_eject_member_t *member,
    ngx_etcd_note_t *note)
{
    ngx_etcd_eject_count_t  *step, total;

    total.answers = ngx_etcd_counter_get(&note->answers, note->uid);
    total.errors = ngx_etcd_counter_get(&note->errors, note->uid);

    step = &member->steps[eject->step];

    member->sum.answers -= step->answers;
    member->sum.errors -= step->errors;

    /* answers that an earlier agent has seen do not count */

    if (member->fresh) {
        step->answers = total.answers - member->total.answers;
        step->errors = total.errors - member->total.errors;

    } else {
        step->answers = 0;
        step->errors = 0;
        member->fresh = 1;
    }

    member->sum.answers += step->answers;
    member->sum.errors += step->errors;
    member->total = total;
}


/* Copies the name of a member, to be logged. */

static void
ngx_etcd_eject_name(ngx_etcd_eject_t *eject, ngx_etcd_slot_t *slot)
{
    ngx_etcd_member_pack_t  record;

    ngx_etcd_member_pack_read(&record, ngx_etcd_entry_payload(slot->entry));

    eject->member.data = eject->text;
    eject->member.len = ngx_min(record.name.len, sizeof(eject->text));

    ngx_memcpy(eject->text, record.name.data, eject->member.len);
}


/* The member is used again when its time is over, and judged anew. */

static void
ngx_etcd_eject_age(ngx_etcd_eject_t *eject, ngx_uint_t n,
    ngx_etcd_note_t *note, time_t now)
{
    ngx_etcd_slot_t  *slot;

    if (note->until == 0) {

        if (note->level != 0
            && (int32_t) ((uint32_t) now - note->rested)
               >= (int32_t) eject->conf->time)
        {
            note->level--;
            note->rested = (uint32_t) now;
        }

        return;
    }

    if ((int32_t) ((uint32_t) now - note->until) < 0 && !eject->pardon) {
        return;
    }

    note->until = 0;
    note->rested = (uint32_t) now;

    ngx_memzero(&eject->members[n].sum, sizeof(ngx_etcd_eject_count_t));
    ngx_memzero(eject->members[n].steps, sizeof(eject->members[n].steps));

    slot = ngx_etcd_member_set_slot(eject->set, n);

    (void) ngx_etcd_counter_bits(&slot->verdict, slot->uid, 0,
                                 NGX_ETCD_VERDICT_EJECTED);

    ngx_etcd_eject_name(eject, slot);
}


/* "n" is the oldest step of the part. */

static ngx_uint_t
ngx_etcd_eject_fails(ngx_etcd_eject_t *eject, ngx_uint_t n,
    ngx_etcd_eject_part_t *part)
{
    uint32_t  enough;

    enough = (n == NGX_ETCD_EJECT_STEPS - 1) ? part->own.answers
                                             : part->own.errors;

    return enough >= eject->conf->min
           && part->own.answers != 0
           && (uint64_t) part->own.errors * 100
              >= (uint64_t) part->own.answers * eject->conf->errors;
}


/*
 * Compared with all others that are in use, over the same steps: if all fail
 * alike, the cause is elsewhere.
 */

static ngx_uint_t
ngx_etcd_eject_sticks_out(ngx_etcd_eject_t *eject, ngx_etcd_eject_part_t *part)
{
    return part->others.answers >= eject->conf->min
           && (uint64_t) part->own.errors * part->others.answers
              >= (uint64_t) NGX_ETCD_EJECT_FACTOR * part->others.errors
                 * part->own.answers;
}


/*
 * Finds the shortest part in which the member of slot n fails and, if
 * "compared" is set, sticks out.  Returns 0 if there is none.
 */

static ngx_uint_t
ngx_etcd_eject_find(ngx_etcd_eject_t *eject, ngx_uint_t n, ngx_uint_t compared,
    ngx_etcd_eject_part_t *part)
{
    ngx_uint_t               i, step;
    ngx_etcd_eject_count_t  *all, *own;

    ngx_memzero(part, sizeof(ngx_etcd_eject_part_t));

    /* from the newest step on; the part gets one older step each time */

    for (i = 0; i < NGX_ETCD_EJECT_STEPS; i++) {
        step = (eject->step + NGX_ETCD_EJECT_STEPS - i) % NGX_ETCD_EJECT_STEPS;

        own = &eject->members[n].steps[step];
        all = &eject->steps[step];

        part->own.answers += own->answers;
        part->own.errors += own->errors;
        part->others.answers += all->answers - own->answers;
        part->others.errors += all->errors - own->errors;

        if (ngx_etcd_eject_fails(eject, i, part)
            && (!compared || ngx_etcd_eject_sticks_out(eject, part)))
        {
            return 1;
        }
    }

    return 0;
}


static void
ngx_etcd_eject_read(ngx_etcd_eject_t *eject, ngx_uint_t n, time_t now)
{
    ngx_uint_t                   i;
    ngx_etcd_note_t             *note;
    ngx_etcd_slot_t             *slot;
    ngx_etcd_eject_part_t        part;
    ngx_etcd_member_pack_t       record;
    ngx_etcd_eject_member_t     *member;
    ngx_etcd_eject_candidate_t  *candidate;

    note = ngx_etcd_member_set_own_note(eject->set, n);
    member = &eject->members[n];

    if (note == NULL) {
        member->uid = 0;
        return;
    }

    if (member->uid != note->uid) {
        ngx_memzero(member, sizeof(ngx_etcd_eject_member_t));
        member->uid = note->uid;
    }

    ngx_etcd_eject_tally(eject, member, note);
    ngx_etcd_eject_age(eject, n, note, now);

    slot = ngx_etcd_member_set_slot(eject->set, n);

    ngx_etcd_member_pack_read(&record, ngx_etcd_entry_payload(slot->entry));

    /* a member that is down, drained or fails its checks gets no requests */

    if (record.attr.down
        || record.attr.drain
        || (ngx_etcd_counter_get(&slot->verdict, slot->uid)
            & (NGX_ETCD_VERDICT_FAILED|NGX_ETCD_VERDICT_UNPROVEN)))
    {
        return;
    }

    eject->nmembers++;

    if (note->until != 0) {
        eject->nejected++;
        return;
    }

    for (i = 0; i < NGX_ETCD_EJECT_STEPS; i++) {
        eject->steps[i].answers += member->steps[i].answers;
        eject->steps[i].errors += member->steps[i].errors;
    }

    /* a bad member fails too often for any other one to stick out beside it */

    if ((uint64_t) NGX_ETCD_EJECT_FACTOR * member->sum.errors
        > member->sum.answers)
    {
        eject->nbad++;

    } else if (member->sum.answers != 0) {
        eject->nwell++;
    }

    /* candidates are compared with the others when all have been read */

    if (member->sum.errors != 0 && ngx_etcd_eject_find(eject, n, 0, &part)) {
        candidate = &eject->candidates[eject->ncandidates++];

        candidate->slot = n;
        candidate->share = (ngx_uint_t) part.own.errors * 1000
                           / part.own.answers;
    }
}


/* Ends after a member that is used again, which is logged without the mutex. */

static ngx_uint_t
ngx_etcd_eject_piece(ngx_etcd_zone_t *zone, void *data)
{
    ngx_etcd_eject_t *eject = data;

    ngx_uint_t  n, last;

    n = ngx_min(eject->allocated, eject->set->nslots);
    last = ngx_min(eject->next + NGX_ETCD_EJECT_PIECE, n);

    while (eject->next < last) {
        ngx_etcd_eject_read(eject, eject->next++, eject->now);

        if (eject->member.len != 0) {
            return 0;
        }
    }

    return last < n;
}


static int ngx_libc_cdecl
ngx_etcd_eject_worst(const void *one, const void *two)
{
    const ngx_etcd_eject_candidate_t  *a, *b;

    a = one;
    b = two;

    return (a->share < b->share) - (a->share > b->share);
}


/*
 * Locks the mutex, and copies the name of a member.  NULL: the mutex is not
 * locked, or the member is gone.
 */

static ngx_etcd_note_t *
ngx_etcd_eject_lock(ngx_etcd_eject_t *eject, ngx_uint_t n)
{
    ngx_etcd_note_t  *note;

    if (ngx_etcd_zone_lock_owned(eject->zone, 0) != NGX_OK) {
        return NULL;
    }

    note = ngx_etcd_member_set_own_note(eject->set, n);

    if (note == NULL || note->uid != eject->members[n].uid) {
        ngx_etcd_zone_unlock(eject->zone);
        return NULL;
    }

    ngx_etcd_eject_name(eject, ngx_etcd_member_set_slot(eject->set, n));

    return note;
}


/* Reported once, until no member has to be spared. */

static void
ngx_etcd_eject_refuse(ngx_etcd_eject_t *eject, ngx_uint_t n)
{
    if (eject->limited || ngx_etcd_eject_lock(eject, n) == NULL) {
        return;
    }

    ngx_etcd_zone_unlock(eject->zone);

    eject->limited = 1;

    ngx_log_error(NGX_LOG_WARN, eject->log, 0,
                  "etcd: upstream \"%V\": member %V fails but is not ejected: "
                  "with %ui of %ui members ejected, one more is over "
                  "\"max=%ui%%\"", eject->name, ngx_etcd_shown(&eject->member),
                  eject->nejected, eject->nmembers, eject->conf->max);
}


static void
ngx_etcd_eject_member(ngx_etcd_eject_t *eject, ngx_uint_t n,
    ngx_etcd_eject_part_t *part, time_t now)
{
    time_t                    time;
    ngx_uint_t                i;
    ngx_etcd_note_t          *note;
    ngx_etcd_slot_t          *slot;
    ngx_etcd_eject_member_t  *member;

    note = ngx_etcd_eject_lock(eject, n);
    if (note == NULL) {
        return;
    }

    slot = ngx_etcd_member_set_slot(eject->set, n);
    member = &eject->members[n];

    time = eject->conf->time << note->level;

    note->until = (uint32_t) (now + time);
    note->ejections++;

    if (note->level < NGX_ETCD_EJECT_DOUBLINGS) {
        note->level++;
    }

    eject->set->counts.ejections++;

    (void) ngx_etcd_counter_bits(&slot->verdict, slot->uid,
                                 NGX_ETCD_VERDICT_EJECTED, 0);

    ngx_etcd_zone_unlock(eject->zone);

    eject->nejected++;

    for (i = 0; i < NGX_ETCD_EJECT_STEPS; i++) {
        eject->steps[i].answers -= member->steps[i].answers;
        eject->steps[i].errors -= member->steps[i].errors;
    }

    ngx_log_error(NGX_LOG_WARN, eject->log, 0,
                  "etcd: upstream \"%V\": member %V is ejected for %T s: %uD "
                  "of its last %uD answers were errors, %uD of %uD of the "
                  "others'", eject->name, ngx_etcd_shown(&eject->member), time,
                  part->own.errors, part->own.answers, part->others.errors,
                  part->others.answers);
}


/* Ejects the members that stick out, the worst first. */

static void
ngx_etcd_eject_judge(ngx_etcd_eject_t *eject, time_t now)
{
    ngx_uint_t                   i;
    ngx_etcd_eject_part_t        part;
    ngx_etcd_eject_candidate_t  *candidate;

    if (eject->ncandidates == 0) {
        eject->limited = 0;
        return;
    }

    candidate = eject->candidates;

    ngx_qsort(candidate, eject->ncandidates,
              sizeof(ngx_etcd_eject_candidate_t), ngx_etcd_eject_worst);

    for (i = 0; i < eject->ncandidates; i++) {

        if (!ngx_etcd_eject_find(eject, candidate[i].slot, 1, &part)) {
            continue;
        }

        if ((eject->nejected + 1) * 100 > eject->conf->max * eject->nmembers) {
            ngx_etcd_eject_refuse(eject, candidate[i].slot);
            return;
        }

        ngx_etcd_eject_member(eject, candidate[i].slot, &part, now);
    }

    eject->limited = 0;
}


ngx_int_t
ngx_etcd_eject_step(ngx_etcd_eject_t *eject, time_t now)
{
    uint64_t   until;
    ngx_int_t  rc;

    if (eject->next == 0) {
        if (ngx_etcd_eject_prepare(eject) != NGX_OK) {
            return NGX_OK;
        }
    }

    eject->now = now;
    until = ngx_etcd_time_budget_now() + NGX_ETCD_TIME_BUDGET;

    do {
        eject->member.len = 0;

        rc = ngx_etcd_zone_work(eject->zone, 0, ngx_etcd_eject_piece, eject,
                                until);

        if (eject->member.len != 0) {
            ngx_log_error(NGX_LOG_NOTICE, eject->log, 0,
                          "etcd: upstream \"%V\": member %V is used again "
                          "after its ejection%s", eject->name,
                          ngx_etcd_shown(&eject->member),
                          eject->pardon ? ", since no other member works" : "");
        }

    } while (rc == NGX_OK && eject->member.len != 0);

    if (rc == NGX_AGAIN) {
        return NGX_AGAIN;
    }

    eject->next = 0;

    if (rc != NGX_OK) {
        return NGX_OK;
    }

    ngx_etcd_eject_judge(eject, now);

    eject->step = (eject->step + 1) % NGX_ETCD_EJECT_STEPS;

    eject->pardon = (eject->nejected != 0
                     && eject->nwell == 0
                     && (eject->nbad != 0
                         || eject->nejected == eject->nmembers));

    return NGX_OK;
}


void
ngx_etcd_eject_count(ngx_etcd_slot_t *slot, ngx_uint_t n, uint32_t uid,
    ngx_uint_t error)
{
    ngx_etcd_note_t  *note;

    note = ngx_etcd_member_set_note(slot, n);

    if (note == NULL) {
        return;
    }

    (void) ngx_etcd_counter_add(&note->answers, uid, 1);

    if (error) {
        (void) ngx_etcd_counter_add(&note->errors, uid, 1);
    }
}


static ngx_int_t
ngx_etcd_eject_conf_statuses(ngx_etcd_eject_conf_t *conf, u_char *p,
    u_char *last)
{
    ngx_int_t  low, high;

    if (ngx_etcd_option_statuses(p, last, &low, &high) != NGX_OK) {
        return NGX_ERROR;
    }

    for ( /* void */ ; low <= high; low++) {
        conf->statuses[low / 32] |= (uint32_t) 1 << low % 32;
    }

    return NGX_OK;
}


/* Numbers and ranges, separated by commas. */

static char *
ngx_etcd_eject_conf_status(ngx_conf_t *cf, ngx_etcd_option_t *option,
    ngx_str_t *value, void *conf)
{
    ngx_etcd_eject_conf_t *eject = conf;

    u_char  *p, *comma, *last;

    ngx_memzero(eject->statuses, sizeof(eject->statuses));

    last = value->data + value->len;

    for (p = value->data; p != NULL; p = comma ? comma + 1 : NULL) {
        comma = ngx_strlchr(p, last, ',');

        if (ngx_etcd_eject_conf_statuses(eject, p, comma ? comma : last)
            != NGX_OK)
        {
            return "invalid value";
        }
    }

    return NGX_CONF_OK;
}


static ngx_etcd_option_t  ngx_etcd_eject_options[] = {

    { .name = ngx_string("errors="), .type = NGX_ETCD_OPTION_SHARE,
      .offset = offsetof(ngx_etcd_eject_conf_t, errors),
      .min = 1, .max = 100 },

    { .name = ngx_string("status="), .contexts = NGX_ETCD_EJECT_HTTP,
      .set = ngx_etcd_eject_conf_status },

    { .name = ngx_string("window="), .type = NGX_ETCD_OPTION_TIME,
      .offset = offsetof(ngx_etcd_eject_conf_t, window),
      .min = NGX_ETCD_EJECT_MIN_WINDOW, .max = NGX_ETCD_EJECT_MAX_WINDOW },

    { .name = ngx_string("min="), .type = NGX_ETCD_OPTION_NUMBER,
      .offset = offsetof(ngx_etcd_eject_conf_t, min),
      .min = 1, .max = NGX_MAX_INT32_VALUE },

    { .name = ngx_string("time="), .type = NGX_ETCD_OPTION_SECONDS,
      .offset = offsetof(ngx_etcd_eject_conf_t, time),
      .min = 1, .max = NGX_ETCD_EJECT_MAX_TIME },

    { .name = ngx_string("max="), .type = NGX_ETCD_OPTION_SHARE,
      .offset = offsetof(ngx_etcd_eject_conf_t, max),
      .min = 1, .max = 100 },

    ngx_etcd_null_option
};


static char *
ngx_etcd_eject_conf_stream(ngx_etcd_option_t *option, void *conf)
{
    return (option->contexts == NGX_ETCD_EJECT_HTTP)
           ? "there is no status in stream" : NULL;
}


ngx_etcd_eject_conf_t *
ngx_etcd_eject_conf(ngx_conf_t *cf, ngx_uint_t stream)
{
    ngx_str_t              *value;
    ngx_etcd_eject_conf_t  *conf;

    static u_char  errors[] = "500-599";

    conf = ngx_pcalloc(cf->pool, sizeof(ngx_etcd_eject_conf_t));
    if (conf == NULL) {
        return NULL;
    }

    conf->window = NGX_ETCD_EJECT_WINDOW;
    conf->time = NGX_ETCD_EJECT_TIME;
    conf->min = NGX_ETCD_EJECT_ANSWERS;
    conf->max = NGX_ETCD_EJECT_SHARE;

    (void) ngx_etcd_eject_conf_statuses(conf, errors,
                                        errors + sizeof(errors) - 1);

    value = cf->args->elts;

    if (ngx_etcd_option_read(cf, 1, ngx_etcd_eject_options,
                             stream ? ngx_etcd_eject_conf_stream : NULL, conf)
        != NGX_OK)
    {
        return NULL;
    }

    if (conf->errors == 0) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "\"%V\" needs the parameter \"errors=\"", &value[0]);
        return NULL;
    }

    return conf;
}


void
ngx_etcd_eject_conf_use(ngx_etcd_eject_conf_t *conf,
    ngx_etcd_service_conf_t *service)
{
    ngx_etcd_attendant_t  attendant;

    attendant.create = ngx_etcd_eject_create;
    attendant.destroy = ngx_etcd_eject_destroy;
    attendant.published = NULL;
    attendant.conf = conf;
    attendant.verdicts = NGX_ETCD_VERDICT_EJECTED;

    ngx_etcd_attendant_add(&service->attendants, &attendant);
}
