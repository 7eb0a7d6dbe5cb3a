
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The variables of "etcd_set" in the status.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_status_json.h>
#include <ngx_etcd_setting.h>


/* a variable with different keys in different contexts: "$flag (2)" */

#define NGX_ETCD_STATUS_OTHER  (sizeof(" ()") + NGX_INT_T_LEN)


static ngx_uint_t ngx_etcd_status_setting_number(ngx_etcd_setting_t **settings,
    ngx_uint_t n);
static ngx_uint_t ngx_etcd_status_setting_same(ngx_etcd_setting_t *one,
    ngx_etcd_setting_t *two);
static ngx_int_t ngx_etcd_status_setting_name(ngx_etcd_status_t *status,
    ngx_str_t *name, ngx_uint_t number);
static json_t *ngx_etcd_status_setting_json(ngx_etcd_setting_t *setting);
static char *ngx_etcd_status_setting_state(ngx_etcd_cell_view_t *view);


ngx_int_t
ngx_etcd_status_json_settings(ngx_etcd_status_t *status)
{
    ngx_uint_t            number;
    ngx_etcd_setting_t   *setting;
    ngx_etcd_setting_t  **settings;

    ngx_etcd_status_json_begin(status, ",\"variables\":{");

    if (status->row >= status->conf->settings.nelts) {
        ngx_etcd_writer_literal(&status->out, "}");
        return NGX_OK;
    }

    settings = status->conf->settings.elts;
    setting = settings[status->row];

    number = ngx_etcd_status_setting_number(settings, status->row);

    status->row++;

    if (number == 0) {
        return NGX_AGAIN;
    }

    if (ngx_etcd_status_setting_name(status, &setting->name, number)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_etcd_writer_json(&status->out, ngx_etcd_status_setting_json(setting),
                         0);

    return NGX_AGAIN;
}


/*
 * Returns the number, from 1, of a variable among those with the same name;
 * 0: the same variable with the same key has been shown.
 */

static ngx_uint_t
ngx_etcd_status_setting_number(ngx_etcd_setting_t **settings, ngx_uint_t n)
{
    ngx_uint_t  i, number;

    number = 1;

    for (i = 0; i < n; i++) {

        if (settings[i]->name.len != settings[n]->name.len
            || ngx_memcmp(settings[i]->name.data, settings[n]->name.data,
                          settings[n]->name.len)
               != 0)
        {
            continue;
        }

        if (ngx_etcd_status_setting_same(settings[i], settings[n])) {
            return 0;
        }

        if (ngx_etcd_status_setting_number(settings, i) != 0) {
            number++;
        }
    }

    return number;
}


static ngx_uint_t
ngx_etcd_status_setting_same(ngx_etcd_setting_t *one, ngx_etcd_setting_t *two)
{
    return one->value == two->value
           && one->otherwise.len == two->otherwise.len
           && (one->otherwise.len == 0
               || ngx_memcmp(one->otherwise.data, two->otherwise.data,
                             one->otherwise.len)
                  == 0);
}


static ngx_int_t
ngx_etcd_status_setting_name(ngx_etcd_status_t *status, ngx_str_t *name,
    ngx_uint_t number)
{
    ngx_str_t  shown;

    if (number == 1) {
        ngx_etcd_status_json_name(status, name);
        return NGX_OK;
    }

    shown.data = ngx_pnalloc(status->pool, name->len + NGX_ETCD_STATUS_OTHER);
    if (shown.data == NULL) {
        return NGX_ERROR;
    }

    shown.len = ngx_sprintf(shown.data, "%V (%ui)", name, number) - shown.data;

    ngx_etcd_status_json_name(status, &shown);

    return NGX_OK;
}


static json_t *
ngx_etcd_status_setting_json(ngx_etcd_setting_t *setting)
{
    json_t                *value, *shown;
    ngx_etcd_cell_view_t  *view;

    view = ngx_etcd_value_get(setting->value);

    value = (view->modified == 0)
            ? json_null() : ngx_etcd_writer_string(view->value, view->len);

    shown = json_pack("{s:o, s:o, s:o, s:o, s:s, s:I}",
                      "cluster", ngx_etcd_writer_str(&setting->cluster->name),
                      "key", ngx_etcd_writer_str(&setting->value->key),
                      "value", value,
                      "default", ngx_etcd_writer_str(&setting->otherwise),
                      "state", ngx_etcd_status_setting_state(view),
                      "revision", (json_int_t) view->modified);

    if (view->refused != 0 && shown != NULL
        && (json_object_set_new(shown, "reason",
                                ngx_etcd_writer_string(view->reason,
                                                       view->reason_len))
                != 0
            || json_object_set_new(shown, "invalid_revision",
                                   json_integer(view->refused))
               != 0))
    {
        json_decref(shown);
        return NULL;
    }

    return shown;
}


static char *
ngx_etcd_status_setting_state(ngx_etcd_cell_view_t *view)
{
    if (view->state == NGX_ETCD_CELL_DENIED) {
        return "denied";
    }

    if (view->refused != 0) {
        return "invalid";
    }

    if (view->modified != 0) {
        return "set";
    }

    return (view->state == NGX_ETCD_CELL_SYNCED) ? "default" : "unknown";
}
