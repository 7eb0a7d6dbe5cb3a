
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_check_share.h>
#include <ngx_etcd_status_field.h>


#define NGX_ETCD_STATUS_NO_METRIC                                             \
    ngx_etcd_metric_make(NULL, GAUGE, NGX_ETCD_METRIC_WHOLE, NULL, NULL)

/* the metric is the last argument */

#define ngx_etcd_status_row(name, type, object, field, fields, ...)           \
    { name, NGX_ETCD_STATUS_ ## type,                                         \
      offsetof(ngx_etcd_status_ ## object ## _t, field), fields, __VA_ARGS__ }


/* a field of JSON, a field that is a metric as well, and a metric alone */

#define ngx_etcd_status_field(name, type, object, field)                      \
    ngx_etcd_status_row(ngx_string(name), type, object, field, NULL,          \
                        NGX_ETCD_STATUS_NO_METRIC)

#define ngx_etcd_status_both(name, type, object, field, metric)               \
    ngx_etcd_status_row(ngx_string(name), type, object, field, NULL, metric)

#define ngx_etcd_status_metric(type, object, field, metric)                   \
    ngx_etcd_status_row(ngx_null_string, type, object, field, NULL, metric)


/* an object in JSON, or a list of objects */

#define ngx_etcd_status_nested(name, type, object, field, fields)             \
    ngx_etcd_status_row(ngx_string(name), type, object, field, fields,        \
                        NGX_ETCD_STATUS_NO_METRIC)

#define ngx_etcd_status_stream(name, fields)                                  \
    { ngx_string(name), NGX_ETCD_STATUS_STREAM, 0, fields,                    \
      NGX_ETCD_STATUS_NO_METRIC }

#define ngx_etcd_status_label(name, object, field)                            \
    ngx_etcd_status_field(name, TEXT, object, field)

#define ngx_etcd_status_end                                                   \
    { ngx_null_string, NGX_ETCD_STATUS_END, 0, NULL,                          \
      NGX_ETCD_STATUS_NO_METRIC }


static const ngx_etcd_status_field_t  ngx_etcd_status_agent_fields[] = {
    ngx_etcd_status_field("pid", NUMBER, agent, pid),
    ngx_etcd_status_field("epoch", NUMBER, agent, epoch),
    ngx_etcd_status_end
};


static const ngx_etcd_status_field_t  ngx_etcd_status_nginx_fields[] = {
    ngx_etcd_status_metric(NUMBER, nginx, build,
        ngx_etcd_metric_info("nginx_etcd_build",
            "Versions of nginx-etcd and of nginx.")),
    ngx_etcd_status_field("version", TEXT, nginx, version),
    ngx_etcd_status_field("nginx", TEXT, nginx, nginx),
    ngx_etcd_status_nested("agent", OBJECT, nginx, agent,
        ngx_etcd_status_agent_fields),
    ngx_etcd_status_end
};


static const ngx_etcd_status_field_t  ngx_etcd_status_nginx_labels[] = {
    ngx_etcd_status_label("version", nginx, version),
    ngx_etcd_status_label("nginx", nginx, nginx),
    ngx_etcd_status_end
};


static const ngx_etcd_status_field_t  ngx_etcd_status_endpoint_fields[] = {
    ngx_etcd_status_field("url", TEXT, endpoint, url),
    ngx_etcd_status_field("state", TEXT, endpoint, state),
    ngx_etcd_status_field("error", OPTIONAL, endpoint, error),
    ngx_etcd_status_field("failing_for", NUMBER, endpoint, failing),
    ngx_etcd_status_field("version", OPTIONAL, endpoint, version),
    ngx_etcd_status_field("learned", BOOLEAN, endpoint, learned),
    ngx_etcd_status_metric(NUMBER, endpoint, known,
        ngx_etcd_metric_info("nginx_etcd_endpoint",
            "Version of etcd that the endpoint runs.")),
    ngx_etcd_status_end
};


static const ngx_etcd_status_field_t  ngx_etcd_status_endpoint_labels[] = {
    ngx_etcd_status_label("cluster", endpoint, cluster),
    ngx_etcd_status_label("endpoint", endpoint, url),
    ngx_etcd_status_label("version", endpoint, version),
    ngx_etcd_status_end
};


static const ngx_etcd_status_field_t  ngx_etcd_status_cluster_fields[] = {
    ngx_etcd_status_metric(NUMBER, cluster, agent_up,
        ngx_etcd_metric_gauge("nginx_etcd_agent_up",
            "Whether a worker watches the cluster for all of them.")),
    ngx_etcd_status_both("state", TEXT, cluster, state,
        ngx_etcd_metric_states("nginx_etcd_cluster_state",
            ngx_etcd_status_cluster_states,
            "Whether the cluster is in that state.")),
    ngx_etcd_status_field("reason", OPTIONAL, cluster, reason),
    ngx_etcd_status_field("endpoint", TEXT, cluster, endpoint),
    ngx_etcd_status_nested("endpoints", LIST, cluster, endpoints,
        ngx_etcd_status_endpoint_fields),
    ngx_etcd_status_metric(COUNTS, cluster, endpoint_states,
        ngx_etcd_metric_states("nginx_etcd_cluster_endpoints",
            ngx_etcd_status_endpoint_states,
            "Endpoints of the cluster in that state.")),
    ngx_etcd_status_field("cluster_id", TEXT, cluster, id),
    ngx_etcd_status_both("revision", NUMBER, cluster, revision,
        ngx_etcd_metric_gauge("nginx_etcd_cluster_revision",
            "The highest revision of etcd that was seen.")),
    ngx_etcd_status_both("staleness_ms", NUMBER, cluster, staleness,
        ngx_etcd_metric_unit("nginx_etcd_cluster_staleness_seconds",
            NGX_ETCD_METRIC_MILLI, "seconds",
            "Time since what is known was proved to be what etcd has.")),
    ngx_etcd_status_both("reconnects", NUMBER, cluster, reconnects,
        ngx_etcd_metric_counter("nginx_etcd_cluster_reconnects",
            "Connections to etcd that were made anew.")),
    ngx_etcd_status_both("resyncs", NUMBER, cluster, resyncs,
        ngx_etcd_metric_counter("nginx_etcd_cluster_resyncs",
            "Prefixes that were listed again.")),
    ngx_etcd_status_both("repairs", NUMBER, cluster, repairs,
        ngx_etcd_metric_counter("nginx_etcd_cluster_repairs",
            "Audits after which keys were read again.")),
    ngx_etcd_status_metric(NUMBER, cluster, db_size,
        ngx_etcd_metric_unit("nginx_etcd_cluster_db_size_bytes",
            NGX_ETCD_METRIC_WHOLE, "bytes", "Size of etcd's database.")),
    ngx_etcd_status_metric(NUMBER, cluster, db_quota,
        ngx_etcd_metric_unit("nginx_etcd_cluster_db_quota_bytes",
            NGX_ETCD_METRIC_WHOLE, "bytes",
            "Size that etcd's database may have.")),
    ngx_etcd_status_metric(NUMBER, cluster, db_nospace,
        ngx_etcd_metric_gauge("nginx_etcd_cluster_db_nospace",
            "Whether etcd takes no writes, since its database is full.")),
    ngx_etcd_status_metric(HISTOGRAM, cluster, visible,
        ngx_etcd_metric_times("nginx_etcd_change_visible_seconds",
            ngx_etcd_change_bounds,
            "Time from an event's arrival until a worker has read it.")),
    ngx_etcd_status_metric(NUMBER, cluster, zone.size,
        ngx_etcd_metric_unit("nginx_etcd_zone_size_bytes",
            NGX_ETCD_METRIC_WHOLE, "bytes", "Size of the cluster's zone.")),
    ngx_etcd_status_metric(NUMBER, cluster, zone.used,
        ngx_etcd_metric_unit("nginx_etcd_zone_used_bytes",
            NGX_ETCD_METRIC_WHOLE, "bytes", "What of it is in use.")),
    ngx_etcd_status_metric(NUMBER, cluster, zone.stall,
        ngx_etcd_metric_unit("nginx_etcd_longest_stall_seconds",
            NGX_ETCD_METRIC_MICRO, "seconds",
            "The longest time that a worker was kept from its other work.")),
    ngx_etcd_status_end
};


static const ngx_etcd_status_field_t  ngx_etcd_status_cluster_labels[] = {
    ngx_etcd_status_label("cluster", cluster, name),
    ngx_etcd_status_end
};


static const ngx_etcd_status_field_t  ngx_etcd_status_member_fields[] = {
    ngx_etcd_status_field("key", TEXT, member, view.key),
    ngx_etcd_status_field("address", TEXT, member, address),
    ngx_etcd_status_field("host", OPTIONAL, member, host),
    ngx_etcd_status_field("reason", OPTIONAL, member, reason),
    ngx_etcd_status_field("hides", OPTIONAL, member, view.hides),
    ngx_etcd_status_field("hidden_by", OPTIONAL, member, view.hidden_by),
    ngx_etcd_status_both("weight", NUMBER, member, weight,
        ngx_etcd_metric_gauge("nginx_etcd_member_weight",
            "Weight of the member.")),
    ngx_etcd_status_both("near", BOOLEAN, member, near,
        ngx_etcd_metric_gauge("nginx_etcd_member_near",
            "Whether etcd_prefer prefers the member.")),
    ngx_etcd_status_metric(NUMBER, member, view.requests,
        ngx_etcd_metric_counter("nginx_etcd_member_requests",
            "Requests and connections that went to the member.")),
    ngx_etcd_status_field("state", TEXT, member, state),
    ngx_etcd_status_both("conns", NUMBER, member, view.conns,
        ngx_etcd_metric_gauge("nginx_etcd_member_connections",
            "Requests and connections that the member has now.")),
    ngx_etcd_status_both("fails", NUMBER, member, view.fails,
        ngx_etcd_metric_gauge("nginx_etcd_member_failures",
            "Failures that are counted against the member now.")),
    ngx_etcd_status_field("failed_ago", NUMBER, member, failed),
    ngx_etcd_status_field("max_conns", NUMBER, member, read.max_conns),
    ngx_etcd_status_field("max_fails", NUMBER, member, read.max_fails),
    ngx_etcd_status_field("fail_timeout", NUMBER, member, read.fail_timeout),
    ngx_etcd_status_field("slow_start_ms", NUMBER, member, read.slow_start),
    ngx_etcd_status_field("priority", NUMBER, member, read.priority),
    ngx_etcd_status_field("route", OPTIONAL, member, read.route),
    ngx_etcd_status_field("drained_by", OPTIONAL, member, read.drained_by),
    ngx_etcd_status_field("ejected_for", NUMBER, member, ejected),
    ngx_etcd_status_field("check", OPTIONAL, member, check),
    ngx_etcd_status_field("check_for", NUMBER, member, check_for),
    ngx_etcd_status_field("check_row", NUMBER, member, check_row),
    ngx_etcd_status_both("check_us", NUMBER, member, check_took,
        ngx_etcd_metric_unit("nginx_etcd_member_check_seconds",
            NGX_ETCD_METRIC_MICRO, "seconds",
            "Time that the last check of the member took.")),
    ngx_etcd_status_metric(NUMBER, member, check_up,
        ngx_etcd_metric_gauge("nginx_etcd_member_check_up",
            "Whether checks let requests go to the member.")),
    ngx_etcd_status_field("requests", NUMBER, member, view.requests),
    ngx_etcd_status_both("responses", COUNTS, member, view.answers.responses,
        ngx_etcd_metric_counts("nginx_etcd_member_responses", "class",
            ngx_etcd_status_classes,
            "Answers of the member, or sessions, by the class of their "
            "status.")),
    ngx_etcd_status_both("sent", NUMBER, member, view.answers.sent,
        ngx_etcd_metric_bytes("nginx_etcd_member_sent_bytes",
            "Bytes that were sent to the member.")),
    ngx_etcd_status_both("received", NUMBER, member, view.answers.received,
        ngx_etcd_metric_bytes("nginx_etcd_member_received_bytes",
            "Bytes that were received from the member.")),
    ngx_etcd_status_both("response_time", HISTOGRAM, member,
        view.answers.times,
        ngx_etcd_metric_times("nginx_etcd_member_response_seconds",
            ngx_etcd_answer_bounds,
            "Time that the member took to answer, or to be connected.")),
    ngx_etcd_status_field("mod_revision", NUMBER, member, view.mod_revision),
    ngx_etcd_status_field("lease", OPTIONAL, member, lease),
    ngx_etcd_status_end
};


static const ngx_etcd_status_field_t  ngx_etcd_status_member_labels[] = {
    ngx_etcd_status_label("cluster", member, cluster),
    ngx_etcd_status_label("module", member, module),
    ngx_etcd_status_label("upstream", member, upstream),
    ngx_etcd_status_field("set", OPTIONAL, member, set),
    ngx_etcd_status_label("address", member, name),
    ngx_etcd_status_label("key", member, view.key),
    ngx_etcd_status_end
};


const ngx_etcd_status_field_t  ngx_etcd_status_invalid_fields[] = {
    ngx_etcd_status_field("key", TEXT, invalid, key),
    ngx_etcd_status_field("reason", TEXT, invalid, reason),
    ngx_etcd_status_field("mod_revision", NUMBER, invalid, mod_revision),
    ngx_etcd_status_end
};


const ngx_etcd_status_field_t  ngx_etcd_status_unused_fields[] = {
    ngx_etcd_status_field("kind", TEXT, unused, kind),
    ngx_etcd_status_field("keys", NUMBER, unused, keys),
    ngx_etcd_status_field("key", OPTIONAL, unused, key),
    ngx_etcd_status_field("reason", OPTIONAL, unused, reason),
    ngx_etcd_status_field("mod_revision", NUMBER, unused, mod_revision),
    ngx_etcd_status_end
};


static const ngx_etcd_status_field_t  ngx_etcd_status_trouble_fields[] = {
    ngx_etcd_status_field("name", TEXT, trouble, name),
    ngx_etcd_status_field("state", TEXT, trouble, state),
    ngx_etcd_status_field("reason", OPTIONAL, trouble, reason),
    ngx_etcd_status_end
};


const ngx_etcd_status_field_t  ngx_etcd_status_set_fields[] = {
    ngx_etcd_status_field("name", TEXT, set, name),
    ngx_etcd_status_field("state", TEXT, set, state),
    ngx_etcd_status_field("reason", OPTIONAL, set, reason),
    ngx_etcd_status_field("members", NUMBER, set, members),
    ngx_etcd_status_field("up", NUMBER, set, up),
    ngx_etcd_status_field("requests", NUMBER, set, sums.requests),
    ngx_etcd_status_field("conns", NUMBER, set, sums.conns),
    ngx_etcd_status_field("fails", NUMBER, set, sums.fails),
    ngx_etcd_status_end
};


static const ngx_etcd_status_field_t  ngx_etcd_status_upstream_fields[] = {
    ngx_etcd_status_field("cluster", TEXT, upstream, cluster),
    ngx_etcd_status_field("prefix", TEXT, upstream, prefix),
    ngx_etcd_status_field("kind", TEXT, upstream, kind),
    ngx_etcd_status_field("line", NUMBER, upstream, line.number),
    ngx_etcd_status_both("in_use", BOOLEAN, upstream, line.in_use,
        ngx_etcd_metric_gauge("nginx_etcd_upstream_in_use",
            "Whether requests go to this line of the upstream.")),
    ngx_etcd_status_both("state", OPTIONAL, upstream, state,
        ngx_etcd_metric_states("nginx_etcd_upstream_state",
            ngx_etcd_status_upstream_states,
            "Whether the upstream is in that state.")),
    ngx_etcd_status_field("reason", OPTIONAL, upstream, reason),
    ngx_etcd_status_metric(COUNTS, upstream, sums.states,
        ngx_etcd_metric_states("nginx_etcd_upstream_members",
            ngx_etcd_status_member_states,
            "Members of the upstream in that state.")),
    ngx_etcd_status_metric(NUMBER, upstream, revision,
        ngx_etcd_metric_gauge("nginx_etcd_upstream_revision",
            "The revision of etcd up to which the upstream is complete.")),
    ngx_etcd_status_both("generation", NUMBER, upstream, generation,
        ngx_etcd_metric_counter("nginx_etcd_upstream_changes",
            "Changes of members.")),
    ngx_etcd_status_field("revision", NUMBER, upstream, revision),
    ngx_etcd_status_field("staleness_ms", NUMBER, upstream, staleness),
    ngx_etcd_status_metric(NUMBER, upstream, ninvalid,
        ngx_etcd_metric_gauge("nginx_etcd_upstream_invalid_values",
            "Keys whose value cannot be read, up to 256.")),
    ngx_etcd_status_metric(COUNTS, upstream, sums.unused,
        ngx_etcd_metric_states("nginx_etcd_upstream_unused_keys",
            ngx_etcd_status_unused_kinds,
            "Valid keys, or parts of them, that are not used.")),
    ngx_etcd_status_both("waiting", NUMBER, upstream, sums.waiting,
        ngx_etcd_metric_gauge("nginx_etcd_upstream_waiting_requests",
            "Requests and connections that wait for a member.")),
    ngx_etcd_status_both("queued", NUMBER, upstream, sums.queued,
        ngx_etcd_metric_gauge("nginx_etcd_upstream_queued_requests",
            "Requests and connections that wait since all members are full.")),
    ngx_etcd_status_both("closed", NUMBER, upstream, closed,
        ngx_etcd_metric_counter("nginx_etcd_upstream_closed",
            "Connections to former members closed by close_after.")),
    ngx_etcd_status_metric(NUMBER, upstream, sums.requests,
        ngx_etcd_metric_counter("nginx_etcd_upstream_requests",
            "Requests and connections that went to members.")),
    ngx_etcd_status_both("responses", COUNTS, upstream,
        outcomes.answers.responses,
        ngx_etcd_metric_counts("nginx_etcd_upstream_responses", "class",
            ngx_etcd_status_classes,
            "Answers of members, or sessions, by the class of their status.")),
    ngx_etcd_status_both("refused", REASONS, upstream, outcomes.refused,
        ngx_etcd_metric_counts("nginx_etcd_upstream_refused", "reason",
            &ngx_etcd_refusal_words[NGX_ETCD_REFUSAL_UNKNOWN],
            "Requests and sessions that got no answer, by $etcd_reason.")),
    ngx_etcd_status_both("sent", NUMBER, upstream, outcomes.answers.sent,
        ngx_etcd_metric_bytes("nginx_etcd_upstream_sent_bytes",
            "Bytes that were sent to members.")),
    ngx_etcd_status_both("received", NUMBER, upstream,
        outcomes.answers.received,
        ngx_etcd_metric_bytes("nginx_etcd_upstream_received_bytes",
            "Bytes that were received from members.")),
    ngx_etcd_status_both("response_time", HISTOGRAM, upstream,
        outcomes.answers.times,
        ngx_etcd_metric_times("nginx_etcd_upstream_response_seconds",
            ngx_etcd_answer_bounds,
            "Time that members took to answer, or to be connected.")),
    ngx_etcd_status_metric(NUMBER, upstream, sums.conns,
        ngx_etcd_metric_gauge("nginx_etcd_upstream_connections",
            "Requests and connections that members have now.")),
    ngx_etcd_status_metric(NUMBER, upstream, sums.fails,
        ngx_etcd_metric_gauge("nginx_etcd_upstream_failures",
            "Failures that are counted against members now.")),
    ngx_etcd_status_metric(NUMBER, upstream, leader.has_leader,
        ngx_etcd_metric_gauge("nginx_etcd_upstream_has_leader",
            "Whether there is a leader to go to.")),
    ngx_etcd_status_metric(NUMBER, upstream, leader.terms,
        ngx_etcd_metric_counter("nginx_etcd_upstream_leader_changes",
            "Leaders that were seen, the first one included.")),
    ngx_etcd_status_both("ejections", NUMBER, upstream, ejections,
        ngx_etcd_metric_counter("nginx_etcd_upstream_ejections",
            "Ejections of members that failed more than others.")),
    ngx_etcd_status_both("holds", NUMBER, upstream, guard.holds,
        ngx_etcd_metric_counter("nginx_etcd_upstream_holds",
            "Keys whose members were held when they had gone.")),
    ngx_etcd_status_both("would_hold", NUMBER, upstream, guard.would_hold,
        ngx_etcd_metric_counter("nginx_etcd_upstream_would_hold",
            "Keys that would have been held, but for dry_run.")),
    ngx_etcd_status_field("held_for", NUMBER, upstream, guard.held),
    ngx_etcd_status_both("checks", NUMBER, upstream, sums.checks,
        ngx_etcd_metric_counter("nginx_etcd_upstream_checks",
            "Checks of members.")),
    ngx_etcd_status_both("check_failures", NUMBER, upstream,
        sums.check_failures,
        ngx_etcd_metric_counter("nginx_etcd_upstream_check_failures",
            "Checks of members that have failed.")),
    ngx_etcd_status_both("check_role", OPTIONAL, upstream, observer.role,
        ngx_etcd_metric_states("nginx_etcd_upstream_check_role",
            ngx_etcd_check_share_words,
            "Whether this nginx has that role in shared checks.")),
    ngx_etcd_status_both("check_zone", OPTIONAL, upstream, observer.zone,
        ngx_etcd_metric_gauge("nginx_etcd_upstream_check_zone",
            "The zone of shared checks, 1.")),
    ngx_etcd_status_both("check_heard_ms", NUMBER, upstream, observer.heard,
        ngx_etcd_metric_unit("nginx_etcd_upstream_check_heard_seconds",
            NGX_ETCD_METRIC_MILLI, "seconds",
            "Time since the observer of shared checks was heard.")),
    ngx_etcd_status_both("panic", NUMBER, upstream, sums.panic,
        ngx_etcd_metric_gauge("nginx_etcd_upstream_panic",
            "Whether checks are ignored, since too many members fail.")),
    ngx_etcd_status_both("failsafe", BOOLEAN, upstream, leader.failsafe,
        ngx_etcd_metric_gauge("nginx_etcd_upstream_failsafe",
            "Whether a stale leader is used on, as its own API confirms.")),
    ngx_etcd_status_field("prefer", OPTIONAL, upstream, near.prefer),
    ngx_etcd_status_field("near_percent", NUMBER, upstream, near.percent),
    ngx_etcd_status_metric(NUMBER, upstream, near.ratio,
        ngx_etcd_metric_unit("nginx_etcd_upstream_near_ratio",
            NGX_ETCD_METRIC_MICRO, "ratio",
            "Share of requests that goes to preferred members.")),
    ngx_etcd_status_both("sets", NUMBER, upstream, map.sets,
        ngx_etcd_metric_gauge("nginx_etcd_upstream_sets",
            "Sets of a prefix with variables.")),
    ngx_etcd_status_both("sets_down", NUMBER, upstream, map.down,
        ngx_etcd_metric_gauge("nginx_etcd_upstream_sets_down",
            "Sets without a member to go to.")),
    ngx_etcd_status_both("sets_degraded", NUMBER, upstream, map.degraded,
        ngx_etcd_metric_gauge("nginx_etcd_upstream_sets_degraded",
            "Sets of whose members some cannot be used.")),
    ngx_etcd_status_nested("troubles", LIST, upstream, map.troubles,
        ngx_etcd_status_trouble_fields),
    ngx_etcd_status_field("limit", NUMBER, upstream, map.limit),
    ngx_etcd_status_both("over_limit", NUMBER, upstream, map.over,
        ngx_etcd_metric_gauge("nginx_etcd_upstream_sets_over_limit",
            "Keys of sets for which there is no room.")),
    ngx_etcd_status_field("unmatched", NUMBER, upstream, map.unmatched),
    ngx_etcd_status_field("tables", NUMBER, upstream, map.tables),
    ngx_etcd_status_field("requests", NUMBER, upstream, map.requests),
    ngx_etcd_status_stream("list", ngx_etcd_status_set_fields),
    ngx_etcd_status_stream("members", ngx_etcd_status_member_fields),
    ngx_etcd_status_stream("invalid", ngx_etcd_status_invalid_fields),
    ngx_etcd_status_stream("unused", ngx_etcd_status_unused_fields),
    ngx_etcd_status_end
};


static const ngx_etcd_status_field_t  ngx_etcd_status_upstream_labels[] = {
    ngx_etcd_status_label("cluster", upstream, cluster),
    ngx_etcd_status_label("module", upstream, module),
    ngx_etcd_status_label("upstream", upstream, name),
    ngx_etcd_status_field("set", OPTIONAL, upstream, set),
    ngx_etcd_status_end
};


static const ngx_etcd_status_field_t  ngx_etcd_status_election_fields[] = {
    ngx_etcd_status_field("prefix", TEXT, election, prefix),
    ngx_etcd_status_field("leader", NULLABLE, election, leader),
    ngx_etcd_status_field("leader_key", NULLABLE, election, leader_key),
    ngx_etcd_status_field("revision", NUMBER, election, revision),
    ngx_etcd_status_both("is_leader", BOOLEAN, election, is_leader,
        ngx_etcd_metric_gauge("nginx_etcd_election_is_leader",
            "Whether this nginx leads.")),
    ngx_etcd_status_metric(NUMBER, election, has_leader,
        ngx_etcd_metric_gauge("nginx_etcd_election_has_leader",
            "Whether anybody is known to lead.")),
    ngx_etcd_status_field("remaining_ms", NUMBER, election, remaining),
    ngx_etcd_status_metric(NUMBER, election, leaders,
        ngx_etcd_metric_counter("nginx_etcd_election_leader_changes",
            "Leaders that were seen, the first one included.")),
    ngx_etcd_status_end
};


static const ngx_etcd_status_field_t  ngx_etcd_status_election_labels[] = {
    ngx_etcd_status_label("cluster", election, cluster),
    ngx_etcd_status_label("election", election, name),
    ngx_etcd_status_end
};


const ngx_etcd_status_field_t  ngx_etcd_status_holder_fields[] = {
    ngx_etcd_status_field("key", TEXT, lock_row, key),
    ngx_etcd_status_field("pid", NUMBER, lock_row, pid),
    ngx_etcd_status_field("token", NUMBER, lock_row, token),
    ngx_etcd_status_field("shared", NUMBER, lock_row, shared),
    ngx_etcd_status_field("held_ms", NUMBER, lock_row, since),
    ngx_etcd_status_end
};


const ngx_etcd_status_field_t  ngx_etcd_status_waiter_fields[] = {
    ngx_etcd_status_field("key", TEXT, lock_row, key),
    ngx_etcd_status_field("pid", NUMBER, lock_row, pid),
    ngx_etcd_status_field("waiting", NUMBER, lock_row, waiting),
    ngx_etcd_status_field("waiting_ms", NUMBER, lock_row, since),
    ngx_etcd_status_end
};


static const ngx_etcd_status_field_t  ngx_etcd_status_lock_fields[] = {
    ngx_etcd_status_both("held", NUMBER, lock, held,
        ngx_etcd_metric_gauge("nginx_etcd_lock_held",
            "Requests that hold the lock.")),
    ngx_etcd_status_both("waiting", NUMBER, lock, waiting,
        ngx_etcd_metric_gauge("nginx_etcd_lock_waiting",
            "Requests that wait for the lock.")),
    ngx_etcd_status_both("acquired", NUMBER, lock, acquired,
        ngx_etcd_metric_counter("nginx_etcd_lock_acquired",
            "Requests that got the lock.")),
    ngx_etcd_status_both("timeouts", NUMBER, lock, timeouts,
        ngx_etcd_metric_counter("nginx_etcd_lock_timeouts",
            "Requests that did not get the lock in time.")),
    ngx_etcd_status_both("refused", REASONS, lock, refused,
        ngx_etcd_metric_counts("nginx_etcd_lock_refused", "reason",
            &ngx_etcd_refusal_words[NGX_ETCD_REFUSAL_LOCK_HELD],
            "Requests that did not get the lock, or lost it, by $etcd_reason."
            )),
    ngx_etcd_status_both("lost", NUMBER, lock, lost,
        ngx_etcd_metric_counter("nginx_etcd_lock_lost",
            "Requests that lost the lock while they held it.")),
    ngx_etcd_status_both("handoffs", NUMBER, lock, handoffs,
        ngx_etcd_metric_counter("nginx_etcd_lock_handoffs",
            "Requests that were handed the lock within a worker.")),
    ngx_etcd_status_stream("holders", ngx_etcd_status_holder_fields),
    ngx_etcd_status_stream("waiters", ngx_etcd_status_waiter_fields),
    ngx_etcd_status_end
};


static const ngx_etcd_status_field_t  ngx_etcd_status_lock_labels[] = {
    ngx_etcd_status_label("cluster", lock, cluster),
    ngx_etcd_status_label("lock", lock, name),
    ngx_etcd_status_end
};


static const ngx_etcd_status_field_t  ngx_etcd_status_variable_fields[] = {
    ngx_etcd_status_field("cluster", TEXT, variable, cluster),
    ngx_etcd_status_field("key", TEXT, variable, key),
    ngx_etcd_status_field("value", NULLABLE, variable, value),
    ngx_etcd_status_field("default", TEXT, variable, otherwise),
    ngx_etcd_status_both("state", TEXT, variable, state,
        ngx_etcd_metric_states("nginx_etcd_variable_state",
            ngx_etcd_status_variable_states,
            "Whether the variable is in that state.")),
    ngx_etcd_status_field("revision", NUMBER, variable, revision),
    ngx_etcd_status_field("reason", OPTIONAL, variable, reason),
    ngx_etcd_status_field("invalid_revision", NUMBER, variable, refused),
    ngx_etcd_status_both("values", NUMBER, variable, values,
        ngx_etcd_metric_gauge("nginx_etcd_variable_values",
            "Keys that match a key with variables, and are used.")),
    ngx_etcd_status_field("limit", NUMBER, variable, limit),
    ngx_etcd_status_both("unused", NUMBER, variable, unused,
        ngx_etcd_metric_gauge("nginx_etcd_variable_unused_values",
            "Keys for which there is no room.")),
    ngx_etcd_status_both("invalid", NUMBER, variable, invalid,
        ngx_etcd_metric_gauge("nginx_etcd_variable_invalid_values",
            "Keys whose newest value is not used.")),
    ngx_etcd_status_end
};


static const ngx_etcd_status_field_t  ngx_etcd_status_variable_labels[] = {
    ngx_etcd_status_label("cluster", variable, cluster),
    ngx_etcd_status_label("variable", variable, name),
    ngx_etcd_status_end
};


static const ngx_etcd_status_field_t  ngx_etcd_status_zone_fields[] = {
    ngx_etcd_status_field("size", NUMBER, zone, size),
    ngx_etcd_status_field("used", NUMBER, zone, used),
    ngx_etcd_status_field("stall_us", NUMBER, zone, stall),
    ngx_etcd_status_end
};


static const ngx_etcd_status_field_t  ngx_etcd_status_event_fields[] = {
    ngx_etcd_status_field("time", TEXT, event, time),
    ngx_etcd_status_field("upstream", TEXT, event, upstream),
    ngx_etcd_status_field("key", TEXT, event, key),
    ngx_etcd_status_field("change", TEXT, event, change),
    ngx_etcd_status_field("revision", NUMBER, event, revision),
    ngx_etcd_status_end
};


const ngx_etcd_status_kind_t  ngx_etcd_status_nginx = {
    NULL, ngx_etcd_status_nginx_fields, ngx_etcd_status_nginx_labels,
    ngx_etcd_status_row_nginx
};

const ngx_etcd_status_kind_t  ngx_etcd_status_clusters = {
    "clusters", ngx_etcd_status_cluster_fields, ngx_etcd_status_cluster_labels,
    ngx_etcd_status_row_cluster
};

const ngx_etcd_status_kind_t  ngx_etcd_status_endpoints = {
    NULL, ngx_etcd_status_endpoint_fields, ngx_etcd_status_endpoint_labels,
    ngx_etcd_status_row_endpoint
};

const ngx_etcd_status_kind_t  ngx_etcd_status_upstreams = {
    "upstreams", ngx_etcd_status_upstream_fields,
    ngx_etcd_status_upstream_labels, ngx_etcd_status_row_upstream
};

const ngx_etcd_status_kind_t  ngx_etcd_status_stream_upstreams = {
    "stream_upstreams", ngx_etcd_status_upstream_fields,
    ngx_etcd_status_upstream_labels, ngx_etcd_status_row_upstream
};

const ngx_etcd_status_kind_t  ngx_etcd_status_members = {
    NULL, ngx_etcd_status_member_fields, ngx_etcd_status_member_labels, NULL
};

const ngx_etcd_status_kind_t  ngx_etcd_status_elections = {
    "elections", ngx_etcd_status_election_fields,
    ngx_etcd_status_election_labels, ngx_etcd_status_row_election
};

const ngx_etcd_status_kind_t  ngx_etcd_status_locks = {
    "locks", ngx_etcd_status_lock_fields, ngx_etcd_status_lock_labels,
    ngx_etcd_status_row_lock
};

const ngx_etcd_status_kind_t  ngx_etcd_status_variables = {
    "variables", ngx_etcd_status_variable_fields,
    ngx_etcd_status_variable_labels, ngx_etcd_status_row_variable
};

const ngx_etcd_status_kind_t  ngx_etcd_status_zone = {
    "zone", ngx_etcd_status_zone_fields, NULL, ngx_etcd_status_row_zone
};

const ngx_etcd_status_kind_t  ngx_etcd_status_events = {
    "events", ngx_etcd_status_event_fields, NULL, NULL
};


ngx_uint_t
ngx_etcd_status_field_absent(const ngx_etcd_status_field_t *field, void *value)
{
    switch (field->type) {

    case NGX_ETCD_STATUS_NUMBER:
    case NGX_ETCD_STATUS_BOOLEAN:
    case NGX_ETCD_STATUS_COUNTS:
    case NGX_ETCD_STATUS_REASONS:
        return *(int64_t *) value == NGX_ETCD_STATUS_ABSENT;

    case NGX_ETCD_STATUS_HISTOGRAM:
        return ((ngx_etcd_histogram_t *) value)->sum
               == (uint64_t) NGX_ETCD_STATUS_ABSENT;

    case NGX_ETCD_STATUS_OPTIONAL:
        return ((ngx_str_t *) value)->data == NULL;

    case NGX_ETCD_STATUS_LIST:
        return ((ngx_etcd_status_list_t *) value)->elts == NULL;

    default:
        return field->type == NGX_ETCD_STATUS_STREAM;
    }
}


static void
ngx_etcd_status_json_fields_list(ngx_etcd_text_buffer_t *out,
    const ngx_etcd_status_field_t *fields, ngx_etcd_status_list_t *list)
{
    u_char      *object;
    ngx_uint_t   i;

    object = list->elts;

    for (i = 0; i < list->nelts; i++) {
        ngx_etcd_text_buffer_bytes(out, (i == 0) ? "[{" : ",{", 2);
        ngx_etcd_status_json_fields(out, fields, object);
        ngx_etcd_text_buffer_literal(out, "}");

        object += list->size;
    }

    if (list->nelts == 0) {
        ngx_etcd_text_buffer_literal(out, "[");
    }

    ngx_etcd_text_buffer_literal(out, "]");
}


/* A bucket has the counts of those before it, as in metrics. */

static void
ngx_etcd_status_json_fields_histogram(ngx_etcd_text_buffer_t *out,
    const ngx_etcd_status_field_t *field, ngx_etcd_histogram_t *histogram)
{
    uint64_t    count;
    ngx_uint_t  i;

    count = 0;

    ngx_etcd_text_buffer_literal(out, "{\"buckets\":");

    for (i = 0; i < NGX_ETCD_HISTOGRAM_BOUNDS; i++) {
        count += histogram->counts[i];

        ngx_etcd_text_buffer_printf(out, "%s{\"le_ms\":%uL,\"count\":%uL}",
                                    i ? "," : "[",
                                    field->metric.bounds[i] / 1000, count);
    }

    ngx_etcd_text_buffer_printf(out, "],\"count\":%uL,\"sum_ms\":%uL}",
                                count + histogram->counts[i],
                                histogram->sum / 1000);
}


static void
ngx_etcd_status_json_fields_value(ngx_etcd_text_buffer_t *out,
    const ngx_etcd_status_field_t *field, void *value)
{
    char        *separator;
    uint64_t    *counts;
    ngx_str_t   *states;
    ngx_uint_t   i;

    switch (field->type) {

    case NGX_ETCD_STATUS_NUMBER:
        ngx_etcd_text_buffer_number(out, *(int64_t *) value);
        return;

    case NGX_ETCD_STATUS_BOOLEAN:
        ngx_etcd_text_buffer_printf(out, "%s",
                                    *(int64_t *) value ? "true" : "false");
        return;

    case NGX_ETCD_STATUS_OBJECT:
        ngx_etcd_text_buffer_literal(out, "{");
        ngx_etcd_status_json_fields(out, field->fields, value);
        ngx_etcd_text_buffer_literal(out, "}");
        return;

    case NGX_ETCD_STATUS_LIST:
        ngx_etcd_status_json_fields_list(out, field->fields, value);
        return;

    case NGX_ETCD_STATUS_COUNTS:
    case NGX_ETCD_STATUS_REASONS:
        states = field->metric.states;
        counts = value;
        separator = "";

        ngx_etcd_text_buffer_literal(out, "{");

        for (i = 0; states[i].len != 0; i++) {

            if (counts[i] == 0 && field->type == NGX_ETCD_STATUS_REASONS) {
                continue;
            }

            ngx_etcd_text_buffer_printf(out, "%s\"%V\":%uL", separator,
                                        &states[i], counts[i]);
            separator = ",";
        }

        ngx_etcd_text_buffer_literal(out, "}");
        return;

    case NGX_ETCD_STATUS_HISTOGRAM:
        ngx_etcd_status_json_fields_histogram(out, field, value);
        return;

    default: /* a text */

        if (field->type == NGX_ETCD_STATUS_NULLABLE
            && ((ngx_str_t *) value)->data == NULL)
        {
            ngx_etcd_text_buffer_literal(out, "null");
            return;
        }

        ngx_etcd_text_buffer_text(out, value);
        return;
    }
}


void
ngx_etcd_status_json_fields(ngx_etcd_text_buffer_t *out,
    const ngx_etcd_status_field_t *fields, void *object)
{
    void                           *value;
    ngx_uint_t                      n;
    const ngx_etcd_status_field_t  *field;

    n = 0;

    for (field = fields; field->type != NGX_ETCD_STATUS_END; field++) {

        value = ngx_etcd_status_at(object, field);

        if (field->name.len == 0 || ngx_etcd_status_field_absent(field, value))
        {
            continue;
        }

        if (n++ != 0) {
            ngx_etcd_text_buffer_literal(out, ",");
        }

        ngx_etcd_text_buffer_literal(out, "\"");
        ngx_etcd_text_buffer_bytes(out, field->name.data, field->name.len);
        ngx_etcd_text_buffer_literal(out, "\":");
        ngx_etcd_status_json_fields_value(out, field, value);
    }
}
