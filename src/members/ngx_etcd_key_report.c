
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_key_report.h>
#include <ngx_etcd_str.h>


/* bytes of a zone for one member, with a key of usual length */

#define NGX_ETCD_KEY_REPORT_MEMBER  512

/* reasons that are not of a key; no hash of a text that is logged */

#define NGX_ETCD_KEY_REPORT_EMPTY   1
#define NGX_ETCD_KEY_REPORT_NONE    2
#define NGX_ETCD_KEY_REPORT_HIDDEN  3
#define NGX_ETCD_KEY_REPORT_CITUS   4


static ngx_str_t  ngx_etcd_key_report_citus =
    ngx_string("the prefix lacks the group of Citus");


static void
ngx_etcd_key_report_unname(ngx_etcd_key_report_t *report, ngx_uint_t unused)
{
    ngx_etcd_unused_row_t  *row;

    row = &report->unused.rows[unused];

    if (row->key.data != NULL) {
        ngx_free(row->key.data);
    }

    ngx_str_null(&row->key);
    ngx_str_null(&row->reason);
    row->mod_revision = 0;

    report->named[unused] = NULL;
}


/* Without memory the row has no name until the next key of the kind. */

static ngx_int_t
ngx_etcd_key_report_set(ngx_etcd_key_report_t *report,
    ngx_etcd_unused_row_t *row, ngx_str_t *key, ngx_str_t *reason,
    int64_t revision)
{
    u_char  *p;

    p = ngx_alloc(key->len + reason->len + 1, report->log);
    if (p == NULL) {
        return NGX_ERROR;
    }

    row->key.data = p;
    row->key.len = key->len;
    row->reason.data = ngx_cpymem(p, key->data, key->len);
    row->reason.len = reason->len;
    row->mod_revision = revision;

    ngx_memcpy(row->reason.data, reason->data, reason->len);

    return NGX_OK;
}


/* Returns 1 if the log does not have it, and there is room to remember. */

static ngx_uint_t
ngx_etcd_key_report_untold(ngx_etcd_key_report_t *report, uint32_t hash)
{
    ngx_uint_t   i;
    uint32_t    *told;

    if (report->once != NULL) {

        if (*report->once & (uint64_t) 1 << hash % 64) {
            return 0;
        }

        *report->once |= (uint64_t) 1 << hash % 64;

        return 1;
    }

    told = report->unused.told;

    for (i = 0; i < NGX_ETCD_MEMBER_SET_TOLD; i++) {

        if (told[i] == hash) {
            return 0;
        }

        if (told[i] == 0) {
            told[i] = hash;
            report->changed = 1;
            return 1;
        }
    }

    return 0;
}


static void
ngx_etcd_key_report_forget(ngx_etcd_key_report_t *report, uint32_t hash)
{
    ngx_uint_t   i;
    uint32_t    *told;

    told = report->unused.told;

    for (i = 0; i < NGX_ETCD_MEMBER_SET_TOLD; i++) {

        if (told[i] == hash) {
            ngx_memmove(&told[i], &told[i + 1],
                        (NGX_ETCD_MEMBER_SET_TOLD - i - 1) * sizeof(uint32_t));

            told[NGX_ETCD_MEMBER_SET_TOLD - 1] = 0;
            report->changed = 1;
            return;
        }
    }
}


void
ngx_etcd_key_report_close(ngx_etcd_key_report_t *report)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_ETCD_MEMBER_SET_UNUSED; i++) {
        ngx_etcd_key_report_unname(report, i);
        report->unused.rows[i].keys = 0;
    }

    report->groups = 0;
    report->changed = 1;
}


/* A reason for which the zone has no room is not in the status. */

static ngx_int_t
ngx_etcd_key_report_write(ngx_etcd_key_report_t *report, ngx_etcd_key_t *key,
    ngx_str_t *reason, int64_t revision, ngx_uint_t partly)
{
    return (ngx_etcd_member_set_invalid(report->zone, report->set,
                                        &key->entry.key, reason, revision,
                                        partly)
            == NGX_AGAIN)
           ? NGX_AGAIN : NGX_OK;
}


/*
 * A key that never was a member may be somebody's heartbeat: its first reason
 * is logged, and no other one.  The key may hold any bytes: the log line shows
 * them escaped.
 */

static ngx_int_t
ngx_etcd_key_report_invalid(ngx_etcd_key_report_t *report, ngx_etcd_key_t *key,
    ngx_str_t *reason, int64_t revision, ngx_uint_t partly)
{
    uint32_t    hash;
    ngx_uint_t  member;

    hash = ngx_crc32_long(reason->data, reason->len) ^ (uint32_t) partly;
    member = (key->regs != NULL || key->hosts != NULL);

    if (key->invalid && key->reason == hash) {
        return NGX_OK;
    }

    if (partly) {
        ngx_log_error(NGX_LOG_WARN, report->log, 0,
                      "etcd: upstream \"%V\": key \"%V\" at revision %L is "
                      "used in part: %V",
                      report->name, ngx_etcd_shown(&key->entry.key), revision,
                      reason);

    } else if (!key->invalid || member || report->strict) {
        ngx_log_error(NGX_LOG_ERR, report->log, 0,
                      "etcd: upstream \"%V\": key \"%V\" at revision %L is "
                      "invalid: %V%s",
                      report->name, ngx_etcd_shown(&key->entry.key), revision,
                      reason, report->strict ? ", it is not used"
                              : member ? ", its last valid member stays" : "");
    }

    key->invalid = 1;
    key->reason = hash;

    return ngx_etcd_key_report_write(report, key, reason, revision, partly);
}


ngx_int_t
ngx_etcd_key_report(ngx_etcd_key_report_t *report, ngx_etcd_key_t *key,
    ngx_etcd_reason_t *reason, int64_t revision, ngx_uint_t partly)
{
    ngx_etcd_key_report_unused(report, key, reason, revision);

    if (reason->text.len != 0) {
        return ngx_etcd_key_report_invalid(report, key, &reason->text, revision,
                                           partly);
    }

    if (!key->invalid) {
        return NGX_OK;
    }

    key->invalid = 0;

    return ngx_etcd_key_report_write(report, key, NULL, 0, 0);
}


void
ngx_etcd_key_report_unused(ngx_etcd_key_report_t *report, ngx_etcd_key_t *key,
    ngx_etcd_reason_t *reason, int64_t revision)
{
    ngx_str_t              *text;
    ngx_uint_t              unused, level;
    ngx_etcd_unused_row_t  *row;

    unused = (reason != NULL) ? reason->unused : NGX_ETCD_UNUSED_NONE;

    if (key->unused != NGX_ETCD_UNUSED_NONE) {
        report->unused.rows[key->unused].keys--;

        if (report->named[key->unused] == key) {
            ngx_etcd_key_report_unname(report, key->unused);
        }

        report->changed = 1;
    }

    key->unused = unused;

    if (unused == NGX_ETCD_UNUSED_NONE) {
        return;
    }

    report->unused.rows[unused].keys++;
    report->changed = 1;

    row = &report->unused.rows[unused];
    text = &reason->note;

    if (row->key.data == NULL
        && ngx_etcd_key_report_set(report, row, &key->entry.key, text, revision)
           == NGX_OK)
    {
        report->named[unused] = key;
    }

    if (unused != NGX_ETCD_UNUSED_OTHER
        && ngx_etcd_key_report_untold(report,
                                      ngx_crc32_long(text->data, text->len)))
    {
        level = (unused == NGX_ETCD_UNUSED_FIELD) ? NGX_LOG_NOTICE
                                                  : NGX_LOG_INFO;

        ngx_log_error(level, report->log, 0,
                      "etcd: upstream \"%V\": key \"%V\" at revision %L: %V, "
                      "other such keys are counted in the status only",
                      report->name, ngx_etcd_shown(&key->entry.key), revision,
                      text);
    }
}


/*
 * Patroni keeps each group of a Citus cluster below "PREFIX/GROUP/": the prefix
 * of the configuration lacks the group.
 */

void
ngx_etcd_key_report_ignored(ngx_etcd_key_report_t *report, ngx_str_t *key)
{
    ngx_int_t               group;
    ngx_str_t               rest, number, name, *text;
    ngx_etcd_unused_row_t  *row;

    if (report->leader == NULL
        || report->leader->format != NGX_ETCD_LEADER_PATRONI
        || key->len <= report->prefix->len
        || ngx_memcmp(key->data, report->prefix->data, report->prefix->len)
           != 0)
    {
        return;
    }

    rest.data = key->data + report->prefix->len;
    rest.len = key->len - report->prefix->len;

    if (!ngx_etcd_str_cut(&rest, '/', &number, &name)) {
        return;
    }

    group = ngx_atoi(number.data, number.len);

    if (group == NGX_ERROR
        || (!ngx_etcd_str_is(&name, "leader")
            && (name.len < 8 || ngx_strncmp(name.data, "members/", 8) != 0))
        || report->groups & (uint64_t) 1 << group % 64)
    {
        return;
    }

    report->groups |= (uint64_t) 1 << group % 64;
    report->changed = 1;

    row = &report->unused.rows[NGX_ETCD_UNUSED_OTHER];

    if (row->keys++ != 0) {
        return;
    }

    text = &ngx_etcd_key_report_citus;

    (void) ngx_etcd_key_report_set(report, row, key, text, 0);

    if (!ngx_etcd_key_report_untold(report, NGX_ETCD_KEY_REPORT_CITUS)) {
        return;
    }

    ngx_log_error(NGX_LOG_WARN, report->log, 0,
                  "etcd: upstream \"%V\": key \"%V\" is not used: %V, "
                  "as \"%V%i/\"",
                  report->name, ngx_etcd_shown(key), text, report->prefix,
                  group);
}


void
ngx_etcd_key_report_hidden(ngx_etcd_key_report_t *report, ngx_etcd_key_t *key,
    ngx_etcd_member_t *member)
{
    u_char  *name;

    name = member->name;

    if (!ngx_etcd_key_report_untold(report, NGX_ETCD_KEY_REPORT_HIDDEN)) {
        return;
    }

    ngx_log_error(NGX_LOG_INFO, report->log, 0,
                  "etcd: upstream \"%V\": key \"%V\" and another key have the "
                  "address %*s: the newest key hides the others",
                  report->name, ngx_etcd_shown(&key->entry.key),
                  member->name_len, name);
}


void
ngx_etcd_key_report_full(ngx_etcd_key_report_t *report, ngx_uint_t n)
{
    size_t            size, more;
    ngx_slab_pool_t  *shpool;

    shpool = report->zone->shpool;

    size = shpool->end - (u_char *) shpool;
    more = size + n * NGX_ETCD_KEY_REPORT_MEMBER;

    ngx_log_error(NGX_LOG_ERR, report->log, 0,
                  "etcd: upstream \"%V\": no room for %ui members of prefix "
                  "\"%V\" beside the %ui present: the zone of %uz bytes is "
                  "full, set \"zone\" in \"etcd\" to %uzm or more",
                  report->name, n, report->prefix,
                  (ngx_uint_t) report->set->commit.nmembers, size,
                  (more + 1024 * 1024 - 1) / (1024 * 1024));
}


static void
ngx_etcd_key_report_used(ngx_etcd_key_report_t *report, ngx_uint_t used,
    ngx_uint_t keys)
{
    ngx_uint_t              tagged, n;
    ngx_etcd_unused_row_t  *row;

    if (keys == 0
        && report->groups == 0
        && ngx_etcd_key_report_untold(report, NGX_ETCD_KEY_REPORT_EMPTY))
    {
        ngx_log_error(NGX_LOG_NOTICE, report->log, 0,
                      "etcd: upstream \"%V\": prefix \"%V\" has no keys",
                      report->name, report->prefix);
    }

    row = report->unused.rows;

    tagged = row[NGX_ETCD_UNUSED_TAG].keys;
    n = tagged + row[NGX_ETCD_UNUSED_SCHEME].keys;

    if (used != 0 || n == 0) {
        ngx_etcd_key_report_forget(report, NGX_ETCD_KEY_REPORT_NONE);
        return;
    }

    if (!ngx_etcd_key_report_untold(report, NGX_ETCD_KEY_REPORT_NONE)) {
        return;
    }

    row += tagged ? NGX_ETCD_UNUSED_TAG : NGX_ETCD_UNUSED_SCHEME;

    ngx_log_error(NGX_LOG_WARN, report->log, 0,
                  "etcd: upstream \"%V\": no key of prefix \"%V\" is used: "
                  "%ui are not selected, as \"%V\": %V",
                  report->name, report->prefix, n, ngx_etcd_shown(&row->key),
                  &row->reason);
}


ngx_int_t
ngx_etcd_key_report_published(ngx_etcd_key_report_t *report,
    ngx_etcd_index_t *index, ngx_etcd_mirror_t *mirror, ngx_uint_t drains)
{
    ngx_int_t               rc;
    ngx_uint_t              hidden;
    ngx_etcd_unused_row_t  *row;

    if (mirror->synced && mirror->listed != 0) {
        ngx_etcd_key_report_used(report, index->live, mirror->entries.n);
    }

    hidden = index->slots.nregs - index->slots.addresses.n;
    row = &report->unused.rows[NGX_ETCD_UNUSED_HIDDEN];

    if (row->keys != hidden) {
        row->keys = hidden;
        report->changed = 1;
    }

    if (hidden == 0) {
        ngx_etcd_key_report_forget(report, NGX_ETCD_KEY_REPORT_HIDDEN);
    }

    /* the next agent lists them */

    row = &report->unused.rows[NGX_ETCD_UNUSED_NONE];

    if (row->keys != drains) {
        row->keys = drains;
        report->changed = 1;
    }

    if (!report->changed) {
        return NGX_OK;
    }

    rc = ngx_etcd_unused_write(report->zone, report->set, &report->unused,
                               report->unowned);

    if (rc == NGX_OK) {
        report->changed = 0;
    }

    return rc;
}
