
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_url.h>


typedef struct {
    ngx_str_t                       scheme;
    ngx_uint_t                      port;
} ngx_etcd_url_port_t;


static const ngx_etcd_url_port_t  ngx_etcd_url_ports[] = {

    { ngx_string("http"), 80 },
    { ngx_string("h2c"), 80 },
    { ngx_string("ws"), 80 },
    { ngx_string("https"), 443 },
    { ngx_string("wss"), 443 },

    { ngx_null_string, 0 }
};


/* Returns the first of up to three delimiters, or the end. */

static u_char *
ngx_etcd_url_part(u_char *p, u_char *last, u_char a, u_char b, u_char c)
{
    while (p < last && *p != a && *p != b && *p != c) {
        p++;
    }

    return p;
}


char *
ngx_etcd_url_parse(ngx_etcd_url_t *url, ngx_str_t *text)
{
    u_char  *p, *at, *end, *last;

    p = text->data;
    last = p + text->len;

    url->scheme.data = p;
    url->scheme.len = 0;

    end = ngx_strlchr(p, last, ':');

    if (end != NULL && end != p && last - end >= 3
        && end[1] == '/' && end[2] == '/')
    {
        url->scheme.len = end - p;
        p = end + 3;
    }

    end = ngx_etcd_url_part(p, last, '/', '?', '#');

    url->user.data = p;

    while ((at = ngx_strlchr(p, end, '@')) != NULL) {
        p = at + 1;
    }

    url->user.len = p - url->user.data;

    url->authority.data = p;
    url->authority.len = end - p;

    p = ngx_etcd_url_part(end, last, '?', '#', '#');

    if (p < last && *p == '?') {
        p++;
    }

    url->query.data = p;
    url->query.len = ngx_etcd_url_part(p, last, '#', '#', '#') - p;

    if (url->scheme.len == 0) {
        return "is not a URL";
    }

    return url->authority.len ? NULL : "has no host";
}


ngx_uint_t
ngx_etcd_url_port(ngx_str_t *scheme)
{
    const ngx_etcd_url_port_t  *row;

    for (row = ngx_etcd_url_ports; row->port != 0; row++) {

        if (ngx_etcd_str_alike(&row->scheme, scheme)) {
            return row->port;
        }
    }

    return 0;
}


ngx_int_t
ngx_etcd_url_argument(ngx_str_t *query, ngx_str_t *name, ngx_str_t *value)
{
    ngx_str_t  argument, rest;

    if (query->len == 0) {
        return NGX_DONE;
    }

    if (!ngx_etcd_str_cut(query, '&', &argument, &rest)) {
        argument = *query;
        ngx_str_null(&rest);
    }

    if (!ngx_etcd_str_cut(&argument, '=', name, value)) {
        *name = argument;
        ngx_str_set(value, "");
    }

    *query = rest;

    return NGX_OK;
}


ngx_int_t
ngx_etcd_url_decode(ngx_str_t *dst, ngx_str_t *src, ngx_uint_t query)
{
    u_char     *p, *d, *last;
    ngx_int_t   c;

    d = dst->data;
    last = src->data + src->len;

    for (p = src->data; p < last; p++) {

        if (*p == '+' && query) {
            *d++ = ' ';
            continue;
        }

        if (*p != '%') {
            *d++ = *p;
            continue;
        }

        c = (last - p > 2) ? ngx_hextoi(p + 1, 2) : NGX_ERROR;

        if (c == NGX_ERROR) {
            return NGX_ERROR;
        }

        *d++ = (u_char) c;
        p += 2;
    }

    dst->len = d - dst->data;

    return NGX_OK;
}


void
ngx_etcd_url_segments(ngx_str_t *path, ngx_str_t *parent, ngx_str_t *segment)
{
    u_char  *p, *last;

    last = path->data + path->len;

    for (p = last; p > path->data && p[-1] != '/'; p--) { /* void */ }

    segment->data = p;
    segment->len = last - p;

    last = (p > path->data) ? p - 1 : p;

    for (p = last; p > path->data && p[-1] != '/'; p--) { /* void */ }

    parent->data = p;
    parent->len = last - p;
}


#define NGX_ETCD_URL_NO_MEMORY  "no memory"
#define NGX_ETCD_URL_SHAPE      "it is not \"http://ADDRESS:PORT\""


/*
 * Returns host and port.  The scheme may be missing; a user, a path but "/", a
 * query or a fragment is rejected.
 */

static char *
ngx_etcd_endpoint_authority(ngx_etcd_endpoint_t *endpoint, ngx_str_t *authority)
{
    u_char          *p, *end, *last;
    ngx_etcd_url_t   url;

    static const ngx_str_t  http = ngx_string("http");
    static const ngx_str_t  https = ngx_string("https");

    if (endpoint->url.len > NGX_ETCD_URL_MAX) {
        return "it is too long";
    }

    (void) ngx_etcd_url_parse(&url, &endpoint->url);

    endpoint->secure |= ngx_etcd_str_alike(&url.scheme, &https);

    last = endpoint->url.data + endpoint->url.len;
    end = url.authority.data + url.authority.len;

    if ((url.scheme.len != 0
         && !ngx_etcd_str_alike(&url.scheme, &http)
         && !ngx_etcd_str_alike(&url.scheme, &https))
        || url.user.len != 0
        || last - end > 1
        || (end < last && *end != '/'))
    {
        return NGX_ETCD_URL_SHAPE;
    }

    for (p = url.authority.data; p < end; p++) {
        if (*p <= ' ' || *p >= 0x7f) {
            return NGX_ETCD_URL_SHAPE;
        }
    }

    *authority = url.authority;

    return authority->len ? NULL : "no host";
}


/* RFC 6761, 6.3: "localhost" and all names below are the local machine */

static ngx_uint_t
ngx_etcd_endpoint_localhost(ngx_str_t *host)
{
    size_t  len;

    len = host->len;

    if (len != 0 && host->data[len - 1] == '.') {
        len--;
    }

    return len >= 9
           && ngx_strncasecmp(host->data + len - 9, (u_char *) "localhost", 9)
              == 0
           && (len == 9 || host->data[len - 10] == '.');
}


/*
 * Like other clients of gRPC, nginx calls the host behind a socket "localhost".
 * The URLs, which have the paths, tell such endpoints apart.
 */

static char *
ngx_etcd_endpoint_socket(ngx_pool_t *pool, ngx_etcd_endpoint_t *endpoint)
{
    ngx_url_t  u;

    ngx_memzero(&u, sizeof(ngx_url_t));

    u.url = endpoint->url;

    if (u.url.len < 6 || u.url.data[5] != '/') {
        return "the path of a UNIX socket must begin with \"/\"";
    }

    if (ngx_parse_url(pool, &u) != NGX_OK) {
        return u.err ? u.err : NGX_ETCD_URL_NO_MEMORY;
    }

    endpoint->addr = u.addrs[0];
    endpoint->local = 1;

    ngx_str_set(&endpoint->host, "localhost");
    ngx_str_set(&endpoint->authority, "localhost");

    return NULL;
}


ngx_uint_t
ngx_etcd_url_name(ngx_str_t *host)
{
    u_char   c;
    size_t   i;

    for (i = 0; i < host->len; i++) {
        c = ngx_tolower(host->data[i]);

        if ((c < 'a' || c > 'z') && (c < '0' || c > '9')
            && c != '-' && c != '.' && c != '_')
        {
            return 0;
        }
    }

    return 1;
}


char *
ngx_etcd_endpoint_parse(ngx_pool_t *pool, ngx_etcd_endpoint_t *endpoint)
{
    char       *err;
    u_char     *p;
    ngx_str_t   host;
    ngx_url_t   u;

    ngx_memzero(&u, sizeof(ngx_url_t));

    if (endpoint->url.len >= 5
        && ngx_strncmp(endpoint->url.data, "unix:", 5) == 0)
    {
        return ngx_etcd_endpoint_socket(pool, endpoint);
    }

    u.default_port = 2379;
    u.no_resolve = 1;

    err = ngx_etcd_endpoint_authority(endpoint, &u.url);

    if (err != NULL) {
        return err;
    }

    if (ngx_parse_url(pool, &u) != NGX_OK) {
        return u.err ? u.err : NGX_ETCD_URL_NO_MEMORY;
    }

    if (u.family == AF_UNIX) {
        return NGX_ETCD_URL_SHAPE;
    }

    host = u.host;

    if (u.naddrs == 0 && !ngx_etcd_url_name(&host)) {
        return "invalid host";
    }

    /* the host is as in certificates: IPv6 without brackets */

    if (host.len > 2 && host.data[0] == '[') {
        host.data++;
        host.len -= 2;
    }

    p = ngx_pnalloc(pool, host.len + 1 + u.host.len + sizeof(":65535") - 1);
    if (p == NULL) {
        return NGX_ETCD_URL_NO_MEMORY;
    }

    endpoint->port = u.port;
    endpoint->host.data = p;
    endpoint->host.len = host.len;

    p = ngx_cpymem(p, host.data, host.len);
    *p++ = '\0';

    if (u.naddrs != 0) {
        endpoint->addr = u.addrs[0];
        endpoint->authority = u.addrs[0].name;
        endpoint->local = ngx_etcd_url_local(endpoint->addr.sockaddr);

        return NULL;
    }

    endpoint->authority.data = p;
    endpoint->authority.len = ngx_sprintf(p, "%V:%ui", &u.host,
                                          (ngx_uint_t) u.port)
                              - p;
    endpoint->local = ngx_etcd_endpoint_localhost(&endpoint->host);

    return NULL;
}


char *
ngx_etcd_endpoint_resolve(ngx_pool_t *pool, ngx_etcd_endpoint_t *endpoint)
{
    ngx_url_t  u;

    ngx_memzero(&u, sizeof(ngx_url_t));

    u.host = endpoint->host;
    u.port = endpoint->port;

    if (ngx_inet_resolve_host(pool, &u) != NGX_OK) {
        return u.err ? u.err : NGX_ETCD_URL_NO_MEMORY;
    }

    endpoint->addr = u.addrs[0];
    endpoint->addrs = u.addrs;
    endpoint->naddrs = u.naddrs;

    return NULL;
}


ngx_uint_t
ngx_etcd_url_local(struct sockaddr *sa)
{
    in_addr_t             addr;
#if (NGX_HAVE_INET6)
    struct sockaddr_in6  *sin6;
#endif

    addr = ((struct sockaddr_in *) sa)->sin_addr.s_addr;

#if (NGX_HAVE_INET6)

    if (sa->sa_family == AF_INET6) {
        sin6 = (struct sockaddr_in6 *) sa;

        if (!IN6_IS_ADDR_V4MAPPED(&sin6->sin6_addr)) {
            return IN6_IS_ADDR_LOOPBACK(&sin6->sin6_addr)
                   || IN6_IS_ADDR_UNSPECIFIED(&sin6->sin6_addr);
        }

        ngx_memcpy(&addr, &sin6->sin6_addr.s6_addr[12], sizeof(in_addr_t));
    }

#endif

    return addr == INADDR_ANY || (ntohl(addr) >> 24) == 127;
}


ngx_uint_t
ngx_etcd_endpoint_equal(ngx_etcd_endpoint_t *one, ngx_etcd_endpoint_t *other)
{
    if (ngx_etcd_endpoint_unix(one) || ngx_etcd_endpoint_unix(other)) {
        return ngx_etcd_str_equal(&one->url, &other->url);
    }

    return one->secure == other->secure
           && ngx_etcd_str_alike(&one->authority, &other->authority);
}
