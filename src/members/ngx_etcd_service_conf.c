
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_commit.h>
#include <ngx_etcd_reload.h>
#include <ngx_etcd_service_conf.h>
#include <ngx_etcd_str.h>


/* the name of a further line: "api (2)" */

#define NGX_ETCD_LINES_NUMBER  (sizeof(" ()") - 1 + NGX_INT_T_LEN)


void
ngx_etcd_service_resolver(ngx_etcd_service_conf_t *conf,
    ngx_resolver_t *resolver, ngx_msec_t timeout)
{
    conf->member.resolver = resolver;
    conf->member.resolver_timeout = timeout;

    if (resolver != NULL) {
        conf->params++;
    }
}


/*
 * Makes static servers the members of a new set: they have no key, and are
 * usable before etcd answers.
 */

static ngx_int_t
ngx_etcd_static_seed(ngx_array_t *statics, ngx_etcd_zone_t *zone,
    ngx_etcd_member_set_t *set)
{
    u_char                  payload[NGX_ETCD_MEMBER_PACK_MAX];
    ngx_uint_t              i;
    ngx_array_t             ops;
    ngx_etcd_op_t           op;
    ngx_etcd_commit_t       commit;
    ngx_etcd_member_t      *member;
    ngx_etcd_entry_data_t   data;

    ngx_memzero(&data, sizeof(ngx_etcd_entry_data_t));
    ngx_memzero(&op, sizeof(ngx_etcd_op_t));
    ngx_memzero(&commit, sizeof(ngx_etcd_commit_t));

    ngx_str_set(&data.key, "");

    op.op = NGX_ETCD_OP_PUT;
    ops.elts = &op;
    ops.nelts = 1;

    commit.ops = &ops;
    commit.force = 1;

    member = statics->elts;

    for (i = 0; i < statics->nelts; i++) {

        if (i == set->nslots && ngx_etcd_member_set_grow(zone, set,
                                                         1) != NGX_OK) {
            return NGX_ERROR;
        }

        data.payload = payload;
        data.len = ngx_etcd_member_pack(payload, &member[i]);

        op.slot = i;
        if (ngx_etcd_entry_create(zone, set, &data, 1, &op.entry) != NGX_OK) {
            return NGX_ERROR;
        }

        op.shown = op.entry;
        commit.done = 0;

        if (ngx_etcd_commit(zone, set, &commit) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_etcd_service_declare(ngx_etcd_service_conf_t *conf, ngx_etcd_zone_t *zone,
    ngx_etcd_zone_t *old)
{
    ngx_etcd_object_id_t    id;
    ngx_etcd_member_set_t  *set;

    id.variant = ngx_etcd_member_set_variant(conf->stream, conf->kind);
    id.name = conf->line.upstream;
    id.prefix = conf->prefix;

    set = ngx_etcd_object_declare(zone, &ngx_etcd_member_set_type, &id);

    if (set == NULL
        || (conf->awaited
            && ngx_etcd_member_set_count_waiting(zone, set, 1) != NGX_OK)
        || (conf->rules.queue
            && ngx_etcd_member_set_add_queue(zone, set, 1) != NGX_OK)
        || ngx_etcd_outcome_declare(conf->outcome, zone, &conf->line.upstream,
                                    conf->line.number ? &conf->prefix : NULL,
                                    conf->stream)
           != NGX_OK)
    {
        return NGX_ERROR;
    }

    conf->zone = zone;
    conf->set = set;
    conf->set_id = set->object.id;

    conf->rules.closing.upstream = &conf->name;
    conf->rules.closing.object = &set->object;
    conf->rules.closing.id = set->object.id;
    conf->rules.closing.closed = &set->counts.closed;

    /* the agent updates a set that exists: it may have an owner */

    if (set->generation != 0 || set->nslots != 0) {
        return NGX_OK;
    }

    set->checks.mandatory = conf->mandatory;

    if (old != NULL
        && ngx_etcd_member_set_inherit(zone, set, old) == NGX_ERROR)
    {
        return NGX_ERROR;
    }

    if (set->nslots != 0) {
        return NGX_OK;
    }

    return ngx_etcd_static_seed(&conf->statics, zone, set);
}


/*
 * Without "backup" the members of both lines would be one pool.  Each line has
 * a table with its own rotation and ring: a request that chose a table first
 * would not get the member with the fewest connections of both, nor always the
 * same member for a key.
 */

char *
ngx_etcd_lines_refuse(ngx_etcd_service_conf_t *first,
    ngx_etcd_service_conf_t *line)
{
    ngx_etcd_service_conf_t  *other;

    if (first == NULL) {
        return line->line.backup
               ? "with \"backup\" must follow another one in its upstream"
               : NULL;
    }

    for (other = first; other != NULL; other = other->line.next) {
        if (other->zone == line->zone
            && ngx_etcd_str_equal(&other->prefix, &line->prefix))
        {
            return "is duplicate";
        }
    }

    if (!line->line.backup) {
        return "needs \"backup\", since another one precedes it in its "
               "upstream: members of two of them are not balanced as one pool";
    }

    return (first->catalog || line->catalog)
           ? "cannot stand beside another one if a prefix has variables" : NULL;
}


ngx_int_t
ngx_etcd_lines_add(ngx_conf_t *cf, ngx_etcd_service_conf_t *first,
    ngx_etcd_service_conf_t *line)
{
    u_char                   *p;
    ngx_etcd_service_conf_t  *last;

    last = first;

    while (last->line.next != NULL) {
        last = last->line.next;
    }

    p = ngx_pnalloc(cf->pool, first->name.len + NGX_ETCD_LINES_NUMBER);
    if (p == NULL) {
        return NGX_ERROR;
    }

    first->line.number = 1;
    last->line.next = line;
    line->line.number = last->line.number + 1;
    line->name.data = p;
    line->name.len = ngx_sprintf(p, "%V (%ui)", &first->name,
                                 line->line.number) - p;

    return NGX_OK;
}


void
ngx_etcd_lines_link(ngx_etcd_service_conf_t *first)
{
    ngx_etcd_service_conf_t  *line;

    for (line = first; line->line.next != NULL; line = line->line.next) {
        line->rules.next = line->line.next->table;
        line->line.next->rules.first = first->table;
        line->line.next->rules.sids = first->rules.sids;
    }
}


ngx_msec_t
ngx_etcd_service_interval(ngx_etcd_service_conf_t *conf)
{
    ngx_msec_t  stale;

    stale = conf->rules.max_stale;

    return (stale ? stale : NGX_ETCD_SERVICE_STALE)
           / NGX_ETCD_SERVICE_VERIFICATIONS;
}


void
ngx_etcd_attendant_add(ngx_etcd_attendants_t *attendants,
    ngx_etcd_attendant_t *attendant)
{
    attendants->list[attendants->n++] = *attendant;
}


ngx_uint_t
ngx_etcd_attendant_judges(ngx_etcd_attendants_t *attendants, uint32_t bits)
{
    return (ngx_etcd_attendant_verdicts(attendants) & bits) != 0;
}


uint32_t
ngx_etcd_attendant_verdicts(ngx_etcd_attendants_t *attendants)
{
    uint32_t    verdicts;
    ngx_uint_t  i;

    verdicts = 0;

    for (i = 0; i < attendants->n; i++) {
        verdicts |= attendants->list[i].verdicts;
    }

    return verdicts;
}
