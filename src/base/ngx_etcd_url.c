
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
} ngx_etcd_uri_port_t;


static const ngx_etcd_uri_port_t  ngx_etcd_uri_ports[] = {

    { ngx_string("http"), 80 },
    { ngx_string("h2c"), 80 },
    { ngx_string("ws"), 80 },
    { ngx_string("https"), 443 },
    { ngx_string("wss"), 443 },

    { ngx_null_string, 0 }
};


/* Returns the first of up to three delimiters, or the end. */

static u_char *
ngx_etcd_uri_part(u_char *p, u_char *last, u_char a, u_char b, u_char c)
{
    while (p < last && *p != a && *p != b && *p != c) {
        p++;
    }

    return p;
}


char *
ngx_etcd_uri_parse(ngx_etcd_uri_t *url, ngx_str_t *text)
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

    end = ngx_etcd_uri_part(p, last, '/', '?', '#');

    url->user.data = p;

    while ((at = ngx_strlchr(p, end, '@')) != NULL) {
        p = at + 1;
    }

    url->user.len = p - url->user.data;

    url->authority.data = p;
    url->authority.len = end - p;

    p = ngx_etcd_uri_part(end, last, '?', '#', '#');

    if (p < last && *p == '?') {
        p++;
    }

    url->query.data = p;
    url->query.len = ngx_etcd_uri_part(p, last, '#', '#', '#') - p;

    if (url->scheme.len == 0) {
        return "is not a URL";
    }

    return url->authority.len ? NULL : "has no host";
}


ngx_uint_t
ngx_etcd_uri_port(ngx_str_t *scheme)
{
    const ngx_etcd_uri_port_t  *row;

    for (row = ngx_etcd_uri_ports; row->port != 0; row++) {

        if (ngx_etcd_str_alike(&row->scheme, scheme)) {
            return row->port;
        }
    }

    return 0;
}


ngx_int_t
ngx_etcd_uri_argument(ngx_str_t *query, ngx_str_t *name, ngx_str_t *value)
{
    u_char  *p, *end, *last;

    if (query->len == 0) {
        return NGX_DONE;
    }

    last = query->data + query->len;
    end = ngx_etcd_uri_part(query->data, last, '&', '&', '&');
    p = ngx_etcd_uri_part(query->data, end, '=', '=', '=');

    name->data = query->data;
    name->len = p - query->data;

    if (p < end) {
        p++;
    }

    value->data = p;
    value->len = end - p;

    if (end < last) {
        end++;
    }

    query->data = end;
    query->len = last - end;

    return NGX_OK;
}


ngx_int_t
ngx_etcd_uri_decode(ngx_str_t *dst, ngx_str_t *src, ngx_uint_t query)
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
ngx_etcd_uri_segments(ngx_str_t *path, ngx_str_t *parent, ngx_str_t *segment)
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
ngx_etcd_url_authority(ngx_etcd_endpoint_t *endpoint, ngx_str_t *authority)
{
    u_char          *p, *end, *last;
    ngx_str_t       *text;
    ngx_etcd_uri_t   uri;

    text = &endpoint->url;

    if (text->len > NGX_ETCD_URL_MAX) {
        return "it is too long";
    }

    (void) ngx_etcd_uri_parse(&uri, text);

    if (uri.scheme.len == 5
        && ngx_strncasecmp(uri.scheme.data, (u_char *) "https", 5) == 0)
    {
        endpoint->secure = 1;

    } else if (uri.scheme.len != 0
               && (uri.scheme.len != 4
                   || ngx_strncasecmp(uri.scheme.data, (u_char *) "http", 4)
                      != 0))
    {
        return NGX_ETCD_URL_SHAPE;
    }

    *authority = uri.authority;

    last = text->data + text->len;
    end = authority->data + authority->len;

    if (uri.user.len != 0
        || last - end > 1
        || (end < last && *end != '/'))
    {
        return NGX_ETCD_URL_SHAPE;
    }

    for (p = authority->data; p < end; p++) {
        if (*p <= ' ' || *p >= 0x7f) {
            return NGX_ETCD_URL_SHAPE;
        }
    }

    return authority->len ? NULL : "no host";
}


/* host names become parts of DNS queries, header fields and TLS handshakes */

static char *
ngx_etcd_url_name(ngx_pool_t *pool, ngx_etcd_endpoint_t *endpoint,
    ngx_url_t *u)
{
    u_char      c, *p;
    size_t      size;
    ngx_uint_t  i;

    for (i = 0; i < u->host.len; i++) {
        c = ngx_tolower(u->host.data[i]);

        if ((c < 'a' || c > 'z') && (c < '0' || c > '9')
            && c != '-' && c != '.' && c != '_')
        {
            return "invalid host";
        }
    }

    size = u->host.len + sizeof(":65535") - 1;

    p = ngx_pnalloc(pool, size);
    if (p == NULL) {
        return NGX_ETCD_URL_NO_MEMORY;
    }

    endpoint->authority.data = p;
    endpoint->authority.len = ngx_snprintf(p, size, "%V:%ui", &u->host,
                                           (ngx_uint_t) u->port)
                              - p;

    return NULL;
}


/* the host as in certificates: without the brackets of an IPv6 address */

static char *
ngx_etcd_url_host(ngx_pool_t *pool, ngx_etcd_endpoint_t *endpoint,
    ngx_str_t *host)
{
    ngx_str_t  name;

    name = *host;

    if (name.len > 2 && name.data[0] == '[') {
        name.data++;
        name.len -= 2;
    }

    endpoint->host.data = ngx_pnalloc(pool, name.len + 1);
    if (endpoint->host.data == NULL) {
        return NGX_ETCD_URL_NO_MEMORY;
    }

    endpoint->host.len = name.len;
    *ngx_cpymem(endpoint->host.data, name.data, name.len) = '\0';

    return NULL;
}


/* RFC 6761, 6.3: "localhost" and all names below are the local machine */

static ngx_uint_t
ngx_etcd_url_localhost(ngx_str_t *host)
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


char *
ngx_etcd_url_parse(ngx_pool_t *pool, ngx_etcd_endpoint_t *endpoint)
{
    char       *rv;
    ngx_url_t   u;

    ngx_memzero(&u, sizeof(ngx_url_t));

    u.default_port = 2379;
    u.no_resolve = 1;

    rv = ngx_etcd_url_authority(endpoint, &u.url);

    if (rv != NULL) {
        return rv;
    }

    if (ngx_parse_url(pool, &u) != NGX_OK) {
        return u.err ? u.err : NGX_ETCD_URL_NO_MEMORY;
    }

    if (u.family == AF_UNIX) {
        return NGX_ETCD_URL_SHAPE;
    }

    endpoint->port = u.port;

    if (u.naddrs != 0) {
        endpoint->addr = u.addrs[0];
        endpoint->authority = u.addrs[0].name;

    } else {
        rv = ngx_etcd_url_name(pool, endpoint, &u);

        if (rv != NULL) {
            return rv;
        }
    }

    rv = ngx_etcd_url_host(pool, endpoint, &u.host);

    if (rv == NULL) {
        endpoint->local = (endpoint->addr.sockaddr != NULL)
                          ? ngx_etcd_url_local(endpoint->addr.sockaddr)
                          : ngx_etcd_url_localhost(&endpoint->host);
    }

    return rv;
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
ngx_etcd_url_equal(ngx_etcd_endpoint_t *one, ngx_etcd_endpoint_t *other)
{
    return one->secure == other->secure
           && ngx_etcd_str_alike(&one->authority, &other->authority);
}
