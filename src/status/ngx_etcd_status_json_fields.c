
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_status_json_fields.h>


static ngx_uint_t
ngx_etcd_status_json_fields_absent(const ngx_etcd_status_field_t *field,
    void *value)
{
    if (field->name.len == 0) {
        return 1;
    }

    switch (field->type) {

    case NGX_ETCD_STATUS_NUMBER:
    case NGX_ETCD_STATUS_BOOLEAN:
        return *(int64_t *) value == NGX_ETCD_STATUS_ABSENT;

    case NGX_ETCD_STATUS_OPTIONAL:
        return ((ngx_str_t *) value)->data == NULL;

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


static void
ngx_etcd_status_json_fields_value(ngx_etcd_text_buffer_t *out,
    const ngx_etcd_status_field_t *field, void *value)
{
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

        if (ngx_etcd_status_json_fields_absent(field, value)) {
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
