
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The parameters of directives, "name=value" and single words.  A directive has
 * a table of them; here they are read and checked.
 */


#ifndef _NGX_ETCD_OPTION_H_INCLUDED_
#define _NGX_ETCD_OPTION_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_conf.h>


/* The type says what is at the offset. */

typedef enum {
    NGX_ETCD_OPTION_SET = 0,               /* set() reads the value */
    NGX_ETCD_OPTION_READ,                  /* ngx_etcd_option_text() has read
                                              the value before */
    NGX_ETCD_OPTION_FLAG,                  /* ngx_uint_t; without a value */
    NGX_ETCD_OPTION_TIME,                  /* ngx_msec_t */
    NGX_ETCD_OPTION_SECONDS,               /* time_t */
    NGX_ETCD_OPTION_NUMBER,                /* ngx_uint_t */
    NGX_ETCD_OPTION_SIZE,                  /* size_t, or uint64_t */
    NGX_ETCD_OPTION_SHARE,                 /* ngx_uint_t: "50%", or "0" */
    NGX_ETCD_OPTION_ENUM,                  /* ngx_uint_t */
    NGX_ETCD_OPTION_STRING                 /* ngx_str_t */
} ngx_etcd_option_type_e;


typedef struct ngx_etcd_option_s  ngx_etcd_option_t;

/*
 * Returns NGX_CONF_OK, what is wrong with the value (an empty text: there is no
 * such parameter), or NGX_CONF_ERROR, which was logged.
 */
typedef char *(*ngx_etcd_option_pt)(ngx_conf_t *cf, ngx_etcd_option_t *option,
    ngx_str_t *value, void *conf);


struct ngx_etcd_option_s {
    ngx_str_t                  name;       /* with "=", if it has a value */
    ngx_etcd_option_type_e     type;
    size_t                     conf;       /* offset of a pointer to what has
                                              the field; 0: none */
    size_t                     offset;
    ngx_int_t                  min;        /* of a string: its length */
    ngx_int_t                  max;        /* 0: none */
    ngx_uint_t                 contexts;   /* for the directive's own
                                              "allowed" */
    unsigned                   repeat:1;   /* several are allowed */
    unsigned                   former:1;   /* another one has replaced it */
    unsigned                   pointer:1;  /* a JSON pointer is not for this
                                              row, but for the last one */
    ngx_conf_enum_t           *names;      /* of the values of an enum */
    ngx_etcd_option_pt         set;
    char                      *otherwise;  /* said of a wrong value; NULL:
                                              "invalid value" */
};


/* "off" and "on" */
extern ngx_conf_enum_t  ngx_etcd_option_switch[];

#define ngx_etcd_null_option  { .name = ngx_null_string }


/*
 * Reads the arguments of the directive from "first" on.  A row without a name
 * but with a set() ends a table, too: its set() gets all arguments that no
 * other row has.  allowed(), unless NULL, returns why the row cannot be used
 * with what was read before.  NGX_ERROR was logged.
 */
ngx_int_t ngx_etcd_option_read(ngx_conf_t *cf, ngx_uint_t first,
    ngx_etcd_option_t *options,
    char *(*allowed)(ngx_etcd_option_t *option, void *conf), void *conf);

/* Returns 1 if a row has the argument. */
ngx_uint_t ngx_etcd_option_known(ngx_etcd_option_t *options,
    ngx_str_t *argument);

/*
 * Finds the last argument that begins with the name, which includes "=": other
 * parameters may depend on it, wherever it stands.  Returns 0 if there is none.
 */
ngx_uint_t ngx_etcd_option_text(ngx_conf_t *cf, ngx_uint_t first, char *name,
    ngx_str_t *text);

/* Returns the value of the name, or NGX_ERROR. */
ngx_int_t ngx_etcd_option_enum(ngx_conf_enum_t *names, ngx_str_t *name);

/*
 * Reads a status from 100 to 599, or the first and the last one of several:
 * "200-399".  NGX_ERROR: it is neither.
 */
ngx_int_t ngx_etcd_option_statuses(u_char *p, u_char *last, ngx_int_t *low,
    ngx_int_t *high);

/*
 * Returns the cluster named by "cluster=", or the default one; NULL: no memory.
 */
ngx_etcd_conf_t *ngx_etcd_option_cluster(ngx_conf_t *cf, ngx_uint_t first);


#endif /* _NGX_ETCD_OPTION_H_INCLUDED_ */
