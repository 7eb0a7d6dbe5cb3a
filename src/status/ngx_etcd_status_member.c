
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_status_member.h>


static void
ngx_etcd_status_member_check(ngx_etcd_status_member_t *member,
    ngx_etcd_view_member_t *view)
{
    ngx_etcd_note_t  *note;

    note = &view->note;

    ngx_str_null(&member->check);
    member->check_for = NGX_ETCD_STATUS_ABSENT;
    member->check_took = NGX_ETCD_STATUS_ABSENT;
    member->check_row = NGX_ETCD_STATUS_ABSENT;
    member->check_up = NGX_ETCD_STATUS_ABSENT;

    if (note->result == NGX_ETCD_CHECK_NONE) {
        return;
    }

    ngx_etcd_check_result_text(note->result, note->status, member->check_text,
                               &member->check);

    member->check_for = ngx_max((int32_t) ((uint32_t) ngx_time()
                                           - note->since), 0);
    member->check_took = note->took;
    member->check_row = note->row;
    member->check_up = !(view->verdict & NGX_ETCD_VERDICT_CHECKS);
}


static int64_t
ngx_etcd_status_member_unless(uint32_t value, uint32_t otherwise)
{
    return (value == otherwise) ? NGX_ETCD_STATUS_ABSENT : (int64_t) value;
}


static void
ngx_etcd_status_member_read(ngx_etcd_status_read_t *read,
    ngx_etcd_member_pack_t *record)
{
    ngx_etcd_member_attr_t  *attr;

    attr = &record->attr;

    read->max_conns = ngx_etcd_status_member_unless(attr->max_conns, 0);
    read->max_fails = ngx_etcd_status_member_unless(attr->max_fails, 1);
    read->fail_timeout = ngx_etcd_status_member_unless(attr->fail_timeout, 10);
    read->slow_start = ngx_etcd_status_member_unless(attr->slow_start, 0);
    read->priority = ngx_etcd_status_member_unless(attr->priority, 0);

    read->route.len = record->route.len;
    read->route.data = record->route.len ? record->route.data : NULL;

    ngx_str_null(&read->drained_by);

    if (attr->ordered) {
        ngx_str_set(&read->drained_by, "key");

    } else if (attr->drain) {
        ngx_str_set(&read->drained_by, "value");
    }
}


ngx_etcd_member_state_e
ngx_etcd_status_member_state(ngx_uint_t lowest,
    ngx_etcd_member_pack_t *record, ngx_etcd_view_member_t *view)
{
    ngx_etcd_member_condition_t  member;

    member.attr = &record->attr;
    member.fails = view->fails;
    member.idle = view->idle;
    member.conns = view->conns;
    member.verdict = view->verdict;
    member.shadowed = (view->hidden_by.data != NULL);
    member.unresolved = record->unresolved;
    member.held = view->held;
    member.backup = record->attr.backup || record->attr.priority > lowest;

    return ngx_etcd_health_state(&member);
}


void
ngx_etcd_status_member_set(ngx_etcd_status_member_t *member,
    ngx_etcd_status_upstream_t *upstream, ngx_etcd_view_member_t *view)
{
    ngx_etcd_member_pack_t  record;

    ngx_etcd_member_pack_read(&record, view->payload);

    member->view = *view;

    if (!view->counted || !upstream->service->rules.outcomes) {
        ngx_etcd_status_object_uncounted(&member->view.answers);
    }

    member->address = record.name;
    member->name = record.name;
    member->weight = record.attr.weight;
    member->near = upstream->service->rules.spill ? record.attr.near
                                                  : NGX_ETCD_STATUS_ABSENT;
    member->state = ngx_etcd_status_member_states[
                  ngx_etcd_status_member_state(upstream->lowest, &record,
                                               view)];
    ngx_etcd_status_member_read(&member->read, &record);
    member->failed = (view->failed < 0) ? NGX_ETCD_STATUS_ABSENT : view->failed;
    member->ejected = NGX_ETCD_STATUS_ABSENT;

    if (view->note.until != 0) {
        member->ejected = ngx_max((int32_t) (view->note.until
                                             - (uint32_t) ngx_time()), 0);
    }

    ngx_etcd_status_member_check(member, view);

    member->cluster = upstream->cluster;
    member->module = upstream->module;
    member->upstream = upstream->name;
    member->set = upstream->set;

    ngx_str_null(&member->host);
    ngx_str_null(&member->reason);

    member->lease.data = view->lease ? member->lease_text : NULL;
    member->lease.len = ngx_sprintf(member->lease_text, "%xL", view->lease)
                        - member->lease_text;

    if (record.host.len != 0) {
        member->host.data = member->host_text;
        member->host.len = ngx_sprintf(member->host_text, "%V:%ui",
                                       &record.host, (ngx_uint_t) record.port)
                           - member->host_text;

        if (record.unresolved) {
            member->reason = record.name;

        } else if (record.refused + record.beyond != 0) {
            member->reason.data = member->reason_text;
            member->reason.len = ngx_snprintf(member->reason_text,
                                              sizeof(member->reason_text),
                                     "not all addresses of its host are used: "
                                     "%ui may not be, %ui are too many",
                                              record.refused, record.beyond)
                                 - member->reason_text;
        }
    }

    if (record.unresolved) {
        member->address = member->host;
    }
}
