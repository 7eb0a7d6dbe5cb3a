
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_parameter.h>
#include <ngx_etcd_prefer.h>
#include <ngx_etcd_str.h>


/* The value is a constant of this start or reload of nginx. */

static char *
ngx_etcd_prefer_value(ngx_conf_t *cf, ngx_str_t *value)
{
    char  *text;

    if (ngx_etcd_str_is(value, "$hostname")) {
        *value = cf->cycle->hostname;

    } else if (ngx_strlchr(value->data, value->data + value->len, '$')
               != NULL)
    {
        return "the only variable is \"$hostname\", as the whole value";

    } else if (ngx_strncmp(value->data, "env:", 4) == 0) {

        /* the text of a directive ends with a null character */

        text = getenv((char *) value->data + 4);

        if (text == NULL) {
            return "there is no such variable in the environment";
        }

        value->data = (u_char *) text;
        value->len = ngx_strlen(text);
    }

    return (value->len != 0) ? NULL : "its value is empty";
}


/* Writes the name and the value, as evaluated, into one text. */

static char *
ngx_etcd_prefer_copy(ngx_conf_t *cf, ngx_etcd_tag_t *tag)
{
    u_char  *p;

    p = ngx_pnalloc(cf->pool, tag->key.len + 1 + tag->value.len);

    if (p == NULL) {
        return "no memory";
    }

    (void) ngx_sprintf(p, "%V:%V", &tag->key, &tag->value);

    tag->key.data = p;
    tag->value.data = p + tag->key.len + 1;

    return NULL;
}


/* Returns NULL, or what is wrong. */

static char *
ngx_etcd_prefer_tag(ngx_conf_t *cf, ngx_etcd_tag_t *tag, ngx_str_t *text)
{
    char  *err;

    if (!ngx_etcd_str_cut(text, ':', &tag->key, &tag->value)
        || tag->key.len == 0)
    {
        return "it is not \"TAG:VALUE\"";
    }

    err = ngx_etcd_prefer_value(cf, &tag->value);

    return err ? err : ngx_etcd_prefer_copy(cf, tag);
}


static char *
ngx_etcd_prefer_spill(ngx_uint_t *spill, ngx_str_t *text)
{
    ngx_int_t  rc;
    ngx_str_t  rest;

    rc = NGX_DECLINED;

    if (ngx_strncmp(text->data, "spill=", 6) == 0) {
        rest.data = text->data + 6;
        rest.len = text->len - 6;

        rc = ngx_etcd_parameter_percent(&rest, spill);
    }

    switch (rc) {

    case NGX_OK:
        return NULL;

    case NGX_DECLINED:
        return "it is not \"spill=PERCENT%\"";

    default: /* NGX_ERROR */
        return "it must be from 1% to 100%";
    }
}


char *
ngx_etcd_prefer(ngx_conf_t *cf, ngx_etcd_prefer_t *prefer)
{
    char       *err;
    ngx_str_t  *value;

    value = cf->args->elts;

    err = ngx_etcd_prefer_tag(cf, &prefer->tag, &value[1]);

    if (err != NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid tag \"%V\": %s",
                           &value[1], err);
        return NGX_CONF_ERROR;
    }

    prefer->spill = NGX_ETCD_PREFER_SPILL;

    if (cf->args->nelts == 3) {
        err = ngx_etcd_prefer_spill(&prefer->spill, &value[2]);
    }

    if (err != NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\": %s", &value[2], err);
        return NGX_CONF_ERROR;
    }

    return NGX_CONF_OK;
}


void
ngx_etcd_prefer_use(ngx_etcd_prefer_t *prefer,
    ngx_etcd_service_conf_t *service, uint32_t *hash)
{
    ngx_str_t  text;

    if (prefer->spill == 0) {
        return;
    }

    service->member.prefer = prefer->tag;
    service->rules.spill = prefer->spill;

    ngx_etcd_prefer_text(&prefer->tag, &text);

    ngx_crc32_update(hash, (u_char *) "prefer", 6);
    ngx_crc32_update(hash, text.data, text.len);
}


void
ngx_etcd_prefer_text(ngx_etcd_tag_t *tag, ngx_str_t *str)
{
    str->data = tag->key.data;
    str->len = tag->key.len + 1 + tag->value.len;
}


char *
ngx_etcd_prefer_check(ngx_etcd_prefer_t *prefer,
    ngx_etcd_service_conf_t *service)
{
    if (prefer->spill == 0) {
        return NULL;
    }

    if (service->leader != NULL) {
        return "only \"etcd_members\" has members to prefer";
    }

    return ngx_etcd_parameter_tags(&service->member) ? NULL
                                                     : "the format has no tags";
}
