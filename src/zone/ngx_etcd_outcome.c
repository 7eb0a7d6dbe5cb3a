
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_outcome.h>


/* a fraction, 1/8, of the zone is left to members */

#define NGX_ETCD_OUTCOME_SPARE  8


/* The rows stay: a process may still count in one. */

static void
ngx_etcd_outcome_clear(void *data)
{
    ngx_etcd_outcome_list_t *list = data;

    ngx_etcd_outcome_row_t  *row;

    for (row = list->rows; row != NULL; row = row->next) {
        ngx_memzero(&row->counts, sizeof(ngx_etcd_outcomes_t));
    }
}


const ngx_etcd_object_type_t  ngx_etcd_outcome_type = {
    NGX_ETCD_ZONE_OUTCOMES, sizeof(ngx_etcd_outcome_list_t),
    ngx_etcd_outcome_clear
};


ngx_int_t
ngx_etcd_outcome_declare(ngx_etcd_outcome_t *outcome, ngx_etcd_zone_t *zone,
    ngx_str_t *name, ngx_str_t *prefix, ngx_uint_t stream)
{
    ngx_etcd_object_id_t  id;

    if (outcome == NULL) {
        return NGX_OK;
    }

    ngx_memzero(&id, sizeof(ngx_etcd_object_id_t));

    id.variant = stream;
    id.name = *name;

    if (prefix != NULL) {
        id.prefix = *prefix;
    }

    outcome->list = ngx_etcd_object_declare(zone, &ngx_etcd_outcome_type, &id);
    if (outcome->list == NULL) {
        return NGX_ERROR;
    }

    outcome->id = outcome->list->object.id;
    outcome->counts = &outcome->early;

    return NGX_OK;
}


static void
ngx_etcd_outcome_add_words(void *to, void *from, size_t size)
{
    uint64_t    *word, *more;
    ngx_uint_t   i;

    word = to;
    more = from;

    for (i = 0; i < size / sizeof(uint64_t); i++) {
        word[i] += __atomic_load_n(&more[i], __ATOMIC_RELAXED);
    }
}


/* Returns the row of the process, or NULL.  The caller holds the mutex. */

static ngx_etcd_outcome_row_t *
ngx_etcd_outcome_row(ngx_etcd_outcome_list_t *list, ngx_etcd_zone_t *zone)
{
    ngx_uint_t               pages;
    ngx_etcd_outcome_row_t  *row;

    for (row = list->rows; row != NULL; row = row->next) {
        if (row->row == zone->row) {
            return row;
        }
    }

    pages = (zone->shpool->end - zone->shpool->start) / ngx_pagesize;

    if (zone->shpool->pfree < pages / NGX_ETCD_OUTCOME_SPARE) {
        return NULL;
    }

    row = ngx_slab_calloc_locked(zone->shpool, sizeof(ngx_etcd_outcome_row_t));
    if (row == NULL) {
        return NULL;
    }

    row->row = zone->row;
    row->next = list->rows;

    __atomic_store_n(&list->rows, row, __ATOMIC_RELEASE);

    return row;
}


void
ngx_etcd_outcome_attach(ngx_etcd_outcome_t *outcome, ngx_etcd_zone_t *zone)
{
    ngx_etcd_outcome_row_t  *row;

    if (outcome == NULL
        || outcome->counts != &outcome->early
        || ngx_etcd_zone_lock(zone) != NGX_OK)
    {
        return;
    }

    /* of an upstream that the newest configuration has not, nothing is kept */

    row = (outcome->list->object.id == outcome->id)
          ? ngx_etcd_outcome_row(outcome->list, zone) : NULL;

    if (row != NULL) {
        ngx_etcd_outcome_add_words(&row->counts, &outcome->early,
                                   sizeof(ngx_etcd_outcomes_t));
        ngx_memzero(&outcome->early, sizeof(ngx_etcd_outcomes_t));
    }

    ngx_etcd_zone_unlock(zone);

    if (row != NULL) {
        if (zone->row != NGX_ETCD_ZONE_NO_ROW) {
            outcome->counts = &row->counts;
        }

    } else if (!outcome->told) {
        outcome->told = 1;

        ngx_log_error(NGX_LOG_INFO, ngx_cycle->log, 0,
                      "etcd: answers of members are not counted: the zone is "
                      "full, or a newer configuration has no such upstream");
    }
}


static ngx_inline void
ngx_etcd_answers_count(ngx_etcd_answers_t *answers,
    ngx_etcd_outcome_try_t *ended, ngx_uint_t place, uint64_t us)
{
    answers->sent += ended->sent;
    answers->received += ended->received;

    if (ended->class < NGX_ETCD_OUTCOME_CLASSES) {
        answers->responses[ended->class]++;
    }

    if (ended->time != NGX_ETCD_OUTCOME_NO_TIME) {
        answers->times.counts[place]++;
        answers->times.sum += us;
    }
}


void
ngx_etcd_outcome_count(ngx_etcd_outcome_t *outcome, ngx_etcd_answers_t *member,
    ngx_etcd_outcome_try_t *ended)
{
    uint64_t    us;
    ngx_uint_t  place;

    /* the row may be that of another upstream by now */

    if (outcome->list->object.id != outcome->id) {
        return;
    }

    us = 0;
    place = 0;

    if (ended->time != NGX_ETCD_OUTCOME_NO_TIME) {
        us = (uint64_t) ended->time * 1000;
        place = ngx_etcd_histogram_place(ngx_etcd_answer_bounds, us);
    }

    ngx_etcd_answers_count(&outcome->counts->answers, ended, place, us);

    if (member != NULL) {
        ngx_etcd_answers_count(member, ended, place, us);
    }
}


void
ngx_etcd_outcome_refuse(ngx_etcd_outcome_t *outcome, ngx_pool_t *pool,
    ngx_etcd_refusal_e refusal)
{
    ngx_etcd_refusal_set(pool, refusal);

    if (outcome != NULL && outcome->list->object.id == outcome->id) {
        outcome->counts->refused[refusal - NGX_ETCD_REFUSAL_UNKNOWN]++;
    }
}


void
ngx_etcd_outcome_sum(ngx_etcd_outcome_t *outcome, ngx_etcd_outcomes_t *sum)
{
    ngx_etcd_outcome_row_t  *row;

    ngx_memzero(sum, sizeof(ngx_etcd_outcomes_t));

    for (row = __atomic_load_n(&outcome->list->rows, __ATOMIC_ACQUIRE);
         row != NULL;
         row = row->next)
    {
        ngx_etcd_outcome_add_words(sum, &row->counts,
                                   sizeof(ngx_etcd_outcomes_t));
    }
}


/* a fraction, 1/4, of the zone that is not used for rows */

#define NGX_ETCD_MEMBER_OUTCOME_SPARE  4


ngx_etcd_member_outcome_t *
ngx_etcd_member_outcome_cell(ngx_etcd_zone_t *zone, ngx_etcd_member_set_t *set,
    ngx_uint_t n)
{
    ngx_uint_t                      pages;
    ngx_etcd_chunk_t               *chunk;
    ngx_etcd_member_outcome_row_t  *row;

    if (zone->row == NGX_ETCD_ZONE_NO_ROW) {
        return NULL;
    }

    chunk = ngx_etcd_member_set_chunk(set, n);

    for (row = chunk->outcomes; row != NULL; row = row->next) {
        if (row->row == zone->row) {
            return &row->cells[n % NGX_ETCD_MEMBER_SET_SLOTS];
        }
    }

    pages = (zone->shpool->end - zone->shpool->start) / ngx_pagesize;

    if (zone->shpool->pfree < pages / NGX_ETCD_MEMBER_OUTCOME_SPARE) {
        return NULL;
    }

    row = ngx_slab_calloc_locked(zone->shpool,
                                 sizeof(ngx_etcd_member_outcome_row_t));
    if (row == NULL) {
        return NULL;
    }

    row->row = zone->row;
    row->next = chunk->outcomes;

    __atomic_store_n(&chunk->outcomes, row, __ATOMIC_RELEASE);

    return &row->cells[n % NGX_ETCD_MEMBER_SET_SLOTS];
}


/*
 * A reader does not look at a cell with the uid of a former member, and a slot
 * never gets a former member again: the cell is cleared before its uid changes.
 */

ngx_etcd_answers_t *
ngx_etcd_member_outcome_of(ngx_etcd_member_outcome_t *cell,
    ngx_etcd_slot_t *slot, uint32_t uid)
{
    if (cell == NULL) {
        return NULL;
    }

    if (cell->uid != uid) {

        if (slot->uid != uid) {
            return NULL;
        }

        ngx_memzero(&cell->answers, sizeof(ngx_etcd_answers_t));

        __atomic_store_n(&cell->uid, uid, __ATOMIC_RELEASE);
    }

    return &cell->answers;
}


ngx_uint_t
ngx_etcd_member_outcome_sum(ngx_etcd_member_set_t *set, ngx_uint_t n,
    ngx_etcd_answers_t *sum)
{
    uint32_t                        uid;
    ngx_etcd_member_outcome_t      *cell;
    ngx_etcd_member_outcome_row_t  *row;

    uid = ngx_etcd_member_set_slot(set, n)->uid;
    row = ngx_etcd_member_set_chunk(set, n)->outcomes;

    ngx_memzero(sum, sizeof(ngx_etcd_answers_t));

    if (row == NULL) {
        return 0;
    }

    for ( /* void */ ; row != NULL; row = row->next) {
        cell = &row->cells[n % NGX_ETCD_MEMBER_SET_SLOTS];

        if (__atomic_load_n(&cell->uid, __ATOMIC_ACQUIRE) == uid) {
            ngx_etcd_outcome_add_words(sum, &cell->answers,
                                       sizeof(ngx_etcd_answers_t));
        }
    }

    return 1;
}
