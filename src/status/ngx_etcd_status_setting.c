
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The variables of "etcd_set" in the status.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_status_json.h>
#include <ngx_etcd_set_variable.h>


/* a variable with different keys in different contexts: "$flag (2)" */

#define NGX_ETCD_STATUS_OTHER  (sizeof(" ()") + NGX_INT_T_LEN)


static ngx_uint_t ngx_etcd_status_setting_number(
    ngx_etcd_set_variable_t **variables, ngx_uint_t n);
static ngx_uint_t ngx_etcd_status_setting_same(ngx_etcd_set_variable_t *one,
    ngx_etcd_set_variable_t *two);
static ngx_int_t ngx_etcd_status_setting_name(ngx_etcd_status_t *status,
    ngx_str_t *name, ngx_uint_t number);
static json_t *ngx_etcd_status_setting_json(ngx_etcd_set_variable_t *sv);
static char *ngx_etcd_status_setting_state(ngx_etcd_cell_view_t *view);


ngx_int_t
ngx_etcd_status_json_settings(ngx_etcd_status_t *status)
{
    ngx_uint_t                 number;
    ngx_etcd_set_variable_t   *sv;
    ngx_etcd_set_variable_t  **variables;

    ngx_etcd_status_json_begin(status, ",\"variables\":{");

    if (status->row >= status->conf->set_variables.nelts) {
        ngx_etcd_writer_literal(&status->out, "}");
        return NGX_OK;
    }

    variables = status->conf->set_variables.elts;
    sv = variables[status->row];

    number = ngx_etcd_status_setting_number(variables, status->row);

    status->row++;

    if (number == 0) {
        return NGX_AGAIN;
    }

    if (ngx_etcd_status_setting_name(status, &sv->name, number)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_etcd_writer_json(&status->out, ngx_etcd_status_setting_json(sv),
                         0);

    return NGX_AGAIN;
}


/*
 * Returns the number, from 1, of a variable among those with the same name;
 * 0: the same variable with the same key has been shown.
 */

static ngx_uint_t
ngx_etcd_status_setting_number(ngx_etcd_set_variable_t **variables,
    ngx_uint_t n)
{
    ngx_uint_t  i, number;

    number = 1;

    for (i = 0; i < n; i++) {

        if (variables[i]->name.len != variables[n]->name.len
            || ngx_memcmp(variables[i]->name.data, variables[n]->name.data,
                          variables[n]->name.len)
               != 0)
        {
            continue;
        }

        if (ngx_etcd_status_setting_same(variables[i], variables[n])) {
            return 0;
        }

        if (ngx_etcd_status_setting_number(variables, i) != 0) {
            number++;
        }
    }

    return number;
}


static ngx_uint_t
ngx_etcd_status_setting_same(ngx_etcd_set_variable_t *one,
    ngx_etcd_set_variable_t *two)
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
ngx_etcd_status_setting_json(ngx_etcd_set_variable_t *sv)
{
    json_t                *value, *shown;
    ngx_etcd_cell_view_t  *view;

    view = ngx_etcd_value_get(sv->value);

    value = (view->modified == 0)
            ? json_null() : ngx_etcd_writer_string(view->value, view->len);

    shown = json_pack("{s:o, s:o, s:o, s:o, s:s, s:I}",
                      "cluster", ngx_etcd_writer_str(&sv->cluster->name),
                      "key", ngx_etcd_writer_str(&sv->value->key),
                      "value", value,
                      "default", ngx_etcd_writer_str(&sv->otherwise),
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
