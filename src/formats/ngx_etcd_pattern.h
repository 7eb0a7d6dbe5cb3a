
/*
 * Copyright (C) nginx-etcd contributors
 *
 * A prefix or key that holds variables, for example
 * "/services/$service/$version/".  Each variable stands for exactly one whole
 * segment of a key.  The literal part before the first variable is what is
 * watched; the keys that agree in all segments of the pattern form a set.
 */


#ifndef _NGX_ETCD_PATTERN_H_INCLUDED_
#define _NGX_ETCD_PATTERN_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define NGX_ETCD_PATTERN_VARIABLES  8        /* in one pattern */
#define NGX_ETCD_PATTERN_SEGMENT    255      /* bytes of a variable's segment */
#define NGX_ETCD_PATTERN_PREFIX     4096     /* bytes of a set's prefix */
#define NGX_ETCD_PATTERN_NOT        ".drain" /* no variable has this value: see
                                                ngx_etcd_drain.h */


/* A segment after the literal part. */

typedef struct {
    ngx_str_t                    text;       /* or the name of a variable */
    ngx_uint_t                   variable;
    ngx_uint_t                   lower;      /* of a name of a host */
} ngx_etcd_pattern_segment_t;


/* Made by the configuration, then constant. */

typedef struct {
    ngx_str_t                    text;       /* the configured text */
    ngx_str_t                    literal;    /* ends with a slash */
    ngx_array_t                  segments;   /* ngx_etcd_pattern_segment_t;
                                                the first one is a variable */
    ngx_uint_t                   nvariables;
    ngx_uint_t                   below;      /* ends with a slash: a set has
                                                the keys below its prefix, and
                                                not the key that is the
                                                prefix */
} ngx_etcd_pattern_t;


/* Returns 1 if the text has a variable. */
ngx_uint_t ngx_etcd_pattern_has_variable(ngx_str_t *text);

/*
 * Parses the text.  "rooted" is 1 if a namespace precedes the text: the
 * literal part may then be empty.  NGX_DECLINED: the text is invalid, *err
 * says why; NGX_ERROR: no memory.
 */
ngx_int_t ngx_etcd_pattern_parse(ngx_etcd_pattern_t *pattern, ngx_str_t *text,
    ngx_uint_t rooted, ngx_pool_t *pool, char **err);

/*
 * Returns the length of the set's prefix at the beginning of a key: without
 * the slash at its end, if the pattern has none.  0: the key belongs to no
 * set, since a segment differs or is missing, or one that a variable stands
 * for is empty, ".", "..", NGX_ETCD_PATTERN_NOT, has a NUL, or is too long.
 */
size_t ngx_etcd_pattern_match(ngx_etcd_pattern_t *pattern, ngx_str_t *key);

/*
 * Writes the prefix of the set with these values of the variables, in the
 * order of the pattern, into buf, which has NGX_ETCD_PATTERN_PREFIX bytes.
 * The name that a client asks for by TLS ("$ssl_server_name",
 * "$ssl_preread_server_name") is written in lower case, as nginx does it with
 * "$host".  NGX_DECLINED: no key can belong to such a set: a value is empty,
 * ".", "..", NGX_ETCD_PATTERN_NOT, too long, or has a slash or a NUL; or the
 * prefix is too long.
 */
ngx_int_t ngx_etcd_pattern_prefix(ngx_etcd_pattern_t *pattern,
    ngx_str_t *values, u_char *buf, ngx_str_t *prefix);

/*
 * The name of a set is its prefix without the literal part and without the
 * slash at the end; points into the prefix.
 */
void ngx_etcd_pattern_name(ngx_etcd_pattern_t *pattern, ngx_str_t *prefix,
    ngx_str_t *name);


#endif /* _NGX_ETCD_PATTERN_H_INCLUDED_ */
