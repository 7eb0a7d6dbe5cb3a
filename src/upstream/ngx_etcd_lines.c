
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_lines.h>
#include <ngx_etcd_str.h>


/* the name of a further line: "api (2)" */

#define NGX_ETCD_LINES_NUMBER  (sizeof(" ()") - 1 + NGX_INT_T_LEN)


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
