
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_option.h>
#include <ngx_etcd_str.h>


ngx_conf_enum_t  ngx_etcd_option_switch[] = {
    { ngx_string("off"), 0 },
    { ngx_string("on"), 1 },
    { ngx_null_string, 0 }
};


ngx_int_t
ngx_etcd_option_enum(ngx_conf_enum_t *names, ngx_str_t *name)
{
    for ( /* void */ ; names->name.len != 0; names++) {
        if (ngx_etcd_str_equal(&names->name, name)) {
            return names->value;
        }
    }

    return NGX_ERROR;
}


static char *
ngx_etcd_option_set(ngx_conf_t *cf, ngx_etcd_option_t *option,
    ngx_str_t *value, void *conf)
{
    u_char     *field;
    ngx_int_t   n;

    field = conf;

    if (option->conf != 0) {
        field = *(u_char **) (field + option->conf);
    }

    field += option->offset;

    switch (option->type) {

    case NGX_ETCD_OPTION_SET:
        return option->set(cf, option, value, conf);

    case NGX_ETCD_OPTION_READ:
    case NGX_ETCD_OPTION_STRING:
        n = value->len;
        break;

    case NGX_ETCD_OPTION_FLAG:
        n = 1;
        break;

    case NGX_ETCD_OPTION_TIME:
        n = ngx_parse_time(value, 0);
        break;

    case NGX_ETCD_OPTION_SECONDS:
        n = ngx_parse_time(value, 1);
        break;

    case NGX_ETCD_OPTION_SIZE:
        n = ngx_parse_offset(value);
        break;

    case NGX_ETCD_OPTION_SHARE:

        /* "50%", and "0" */

        if (value->len > 1 && value->data[value->len - 1] == '%') {
            n = ngx_atoi(value->data, value->len - 1);

        } else {
            n = ngx_etcd_str_is(value, "0") ? 0 : NGX_ERROR;
        }

        break;

    case NGX_ETCD_OPTION_ENUM:
        n = ngx_etcd_option_enum(option->names, value);
        break;

    default: /* NGX_ETCD_OPTION_NUMBER */
        n = ngx_atoi(value->data, value->len);
    }

    if (n == NGX_ERROR || n < option->min
        || (option->max != 0 && n > option->max))
    {
        return option->otherwise ? option->otherwise : "invalid value";
    }

    if (option->type == NGX_ETCD_OPTION_STRING) {
        *(ngx_str_t *) field = *value;

    } else if (option->type != NGX_ETCD_OPTION_READ) {
        *(ngx_int_t *) field = n;
    }

    return NGX_CONF_OK;
}


static ngx_etcd_option_t *
ngx_etcd_option_find(ngx_etcd_option_t *option, ngx_str_t *argument)
{
    u_char      last;
    ngx_str_t   name, value;
    ngx_uint_t  pointer;

    pointer = ngx_etcd_str_cut(argument, '=', &name, &value)
              && value.len != 0
              && (value.data[0] == '/' || value.data[0] == '!');

    for ( /* void */ ; option->name.len != 0; option++) {
        last = option->name.data[option->name.len - 1];

        if (ngx_strncmp(argument->data, option->name.data, option->name.len)
            == 0
            && (last == '=' || argument->len == option->name.len)
            && !(pointer && option->pointer))
        {
            break;
        }
    }

    return option;
}


ngx_int_t
ngx_etcd_option_read(ngx_conf_t *cf, ngx_uint_t first,
    ngx_etcd_option_t *options,
    char *(*allowed)(ngx_etcd_option_t *option, void *conf), void *conf)
{
    char               *err;
    u_char              buf[NGX_ETCD_ESCAPED(NGX_MAX_CONF_ERRSTR)];
    uint64_t            seen, bit;
    ngx_str_t          *argument, value, shown;
    ngx_uint_t          i;
    ngx_etcd_option_t  *option;

    argument = cf->args->elts;
    seen = 0;

    for (i = first; i < cf->args->nelts; i++) {
        option = ngx_etcd_option_find(options, &argument[i]);

        bit = (uint64_t) 1 << (option - options);

        value.data = argument[i].data + option->name.len;
        value.len = argument[i].len - option->name.len;

        if (option->name.len == 0 && option->set == NULL) {
            err = "";

        } else if ((seen & bit) && option->name.len && !option->repeat) {
            err = "it is duplicate";

        } else {
            err = (allowed != NULL) ? allowed(option, conf) : NULL;

            if (err == NULL) {
                err = ngx_etcd_option_set(cf, option, &value, conf);
            }
        }

        if (err == NGX_CONF_ERROR) {
            return NGX_ERROR;
        }

        if (err != NGX_CONF_OK) {
            shown.data = buf;
            shown.len = ngx_etcd_escape(buf, &argument[i], NGX_MAX_CONF_ERRSTR)
                        - buf;

            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid parameter \"%V\"%s%s",
                               &shown, *err ? ": " : "", err);
            return NGX_ERROR;
        }

        seen |= bit;
    }

    return NGX_OK;
}


ngx_uint_t
ngx_etcd_option_known(ngx_etcd_option_t *options, ngx_str_t *argument)
{
    return ngx_etcd_option_find(options, argument)->name.len != 0;
}


ngx_uint_t
ngx_etcd_option_text(ngx_conf_t *cf, ngx_uint_t first, char *name,
    ngx_str_t *text)
{
    size_t       len;
    ngx_str_t   *value;
    ngx_uint_t   i;

    len = ngx_strlen(name);
    value = cf->args->elts;

    for (i = cf->args->nelts; i > first; i--) {
        if (ngx_strncmp(value[i - 1].data, name, len) == 0) {
            text->data = value[i - 1].data + len;
            text->len = value[i - 1].len - len;
            return 1;
        }
    }

    return 0;
}


ngx_int_t
ngx_etcd_option_statuses(u_char *p, u_char *last, ngx_int_t *low,
    ngx_int_t *high)
{
    u_char  *dash;

    dash = ngx_strlchr(p, last, '-');

    *low = ngx_atoi(p, (dash ? dash : last) - p);
    *high = dash ? ngx_atoi(dash + 1, last - dash - 1) : *low;

    return (*low >= 100 && *high >= *low && *high <= 599) ? NGX_OK : NGX_ERROR;
}


ngx_etcd_conf_t *
ngx_etcd_option_cluster(ngx_conf_t *cf, ngx_uint_t first)
{
    ngx_str_t  name;

    ngx_str_null(&name);

    (void) ngx_etcd_option_text(cf, first, "cluster=", &name);

    return ngx_etcd_conf_get(cf, &name);
}
