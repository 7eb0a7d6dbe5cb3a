
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_option.h>
#include <ngx_etcd_parameter.h>
#include <ngx_etcd_prefer.h>
#include <ngx_etcd_str.h>


static ngx_etcd_option_t  ngx_etcd_prefer_options[] = {

    { .name = ngx_string("spill="), .type = NGX_ETCD_OPTION_SHARE,
      .offset = offsetof(ngx_etcd_prefer_t, spill),
      .min = 1, .max = 100, .otherwise = "it must be from 1% to 100%" },

    ngx_etcd_null_option
};


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


char *
ngx_etcd_prefer(ngx_conf_t *cf, ngx_etcd_prefer_t *prefer)
{
    char            *err;
    ngx_str_t       *value;
    ngx_etcd_tag_t  *tag;

    tag = &prefer->tag;
    value = cf->args->elts;

    if (!ngx_etcd_str_cut(&value[1], ':', &tag->key, &tag->value)
        || tag->key.len == 0)
    {
        err = "it is not \"TAG:VALUE\"";

    } else {
        err = ngx_etcd_prefer_value(cf, &tag->value);

        if (err == NULL) {
            err = ngx_etcd_prefer_copy(cf, tag);
        }
    }

    if (err != NULL) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "invalid tag \"%V\": %s",
                           &value[1], err);
        return NGX_CONF_ERROR;
    }

    prefer->spill = NGX_ETCD_PREFER_SPILL;

    return (ngx_etcd_option_read(cf, 2, ngx_etcd_prefer_options, NULL, prefer)
            == NGX_OK)
           ? NGX_CONF_OK : NGX_CONF_ERROR;
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

    for ( /* void */ ; service != NULL; service = service->line.next) {

        if (service->leader != NULL) {
            return "only \"etcd_members\" has members to prefer";
        }

        if (!ngx_etcd_parameter_tags(&service->member)) {
            return "the format has no tags";
        }
    }

    return NULL;
}
