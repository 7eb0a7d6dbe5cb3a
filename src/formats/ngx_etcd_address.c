
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_md5.h>
#include <arpa/inet.h>
#include <ngx_etcd_address.h>
#include <ngx_etcd_str.h>


#define NGX_ETCD_ADDRESS_LABEL  63     /* bytes of a label of a host name */

/* the longest address with every byte escaped as "%2F" */

#define NGX_ETCD_ADDRESS_SEGMENT  (3 * NGX_ETCD_MEMBER_NAME_LEN)

#define NGX_ETCD_ADDRESS_LAST     "last segment of the key"


/* the error for a host name if host names are not allowed */

static char  ngx_etcd_address_is_name[] =
    "is a host name, and there is no \"resolver\" in the \"etcd\" block";


/* Copies the host name: the text may be freed before the member is used. */

static ngx_int_t
ngx_etcd_address_named(ngx_etcd_decode_t *d, ngx_etcd_member_t *member)
{
    u_char     *p;
    ngx_str_t  *host;

    host = &member->host;

    p = ngx_pnalloc(d->pool, host->len);
    if (p == NULL) {
        return ngx_etcd_decode_no_memory(d);
    }

    ngx_strlow(p, host->data, host->len);
    host->data = p;

    if (p[host->len - 1] == '.') {
        host->len--;
    }

    ngx_etcd_address_unresolved(member);

    return NGX_OK;
}


/*
 * Returns NULL, or why the address is refused.  A writer of keys could choose
 * any socket of this machine: the sockets of other services are allowed by
 * the configuration only.
 */

static char *
ngx_etcd_address_refused(ngx_etcd_member_conf_t *conf, struct sockaddr *sa)
{
    if (sa->sa_family == AF_UNIX) {
        return conf->allow_unix ? NULL : "needs \"etcd_allow unix:\"";
    }

    if (conf->allow == NULL || ngx_cidr_match(sa, conf->allow) == NGX_OK) {
        return NULL;
    }

    return "is not allowed by etcd_allow";
}


/* Completes the address, given the result of parsing: an error or NULL. */

static ngx_int_t
ngx_etcd_address_check(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    char *field, ngx_str_t *text, char *err)
{
    if (err == ngx_etcd_address_is_name && d->conf->resolver != NULL) {
        return ngx_etcd_address_named(d, member);
    }

    if (err == NULL) {
        err = ngx_etcd_address_refused(d->conf, &member->sockaddr.sockaddr);
    }

    if (err != NULL) {
        return ngx_etcd_decode_invalid(d, field, text, err);
    }

    return NGX_OK;
}


static char *
ngx_etcd_address_printable(ngx_str_t *text)
{
    u_char  *p, *last;

    last = text->data + text->len;

    for (p = text->data; p < last; p++) {
        if (*p <= ' ' || *p >= 0x7f) {
            return "has a byte not allowed in an address";
        }
    }

    return NULL;
}


/*
 * The buffer holds the longest name with the terminating zero of "unix:"
 * names.
 */

static void
ngx_etcd_address_name(ngx_etcd_member_t *member)
{
    ngx_memzero(member->name, NGX_ETCD_MEMBER_NAME_LEN);

    member->name_len = ngx_sock_ntop(&member->sockaddr.sockaddr,
                                     member->socklen, member->name,
                                     NGX_ETCD_MEMBER_NAME_LEN, 1);
}


static char *
ngx_etcd_address_unix(ngx_etcd_member_t *member, ngx_str_t *path)
{
    struct sockaddr_un  *saun;

    saun = &member->sockaddr.sockaddr_un;

    /* a relative path would depend on the working directory */

    if (path->len == 0 || path->data[0] != '/') {
        return "has no absolute path";
    }

    if (path->len >= sizeof(saun->sun_path)) {
        return "has a path that is too long for a socket";
    }

    ngx_memzero(&member->sockaddr, sizeof(ngx_sockaddr_t));

    saun->sun_family = AF_UNIX;
    ngx_memcpy(saun->sun_path, path->data, path->len);

    member->socklen = sizeof(struct sockaddr_un);
    ngx_etcd_address_name(member);

    return NULL;
}


/* Without a port, the data of the port is NULL. */

static char *
ngx_etcd_address_split(ngx_str_t *text, ngx_str_t *host, ngx_str_t *port)
{
    u_char  *p, *last;

    p = text->data;
    last = p + text->len;

    host->data = p;

    if (*p == '[') {
        host->data++;

        p = ngx_strlchr(p, last, ']');
        if (p == NULL) {
            return "has no closing bracket";
        }

        host->len = p++ - host->data;

    } else {
        p = ngx_strlchr(p, last, ':');
        host->len = (p != NULL) ? p - host->data : (ssize_t) text->len;
    }

    if (p == NULL || p == last) {
        ngx_str_null(port);
        return NULL;
    }

    if (*p != ':') {
        return "is not an address and a port";
    }

    port->data = p + 1;
    port->len = last - port->data;

    if (port->len > 2 && ngx_strncmp(port->data, "//", 2) == 0) {
        return "is a URL, not an address and a port";
    }

    if (ngx_strlchr(port->data, last, ':') != NULL) {
        return "has several colons; an IPv6 address needs brackets";
    }

    return NULL;
}


/*
 * A host name: labels of letters, digits and hyphens, with at least one
 * letter.
 */

static char *
ngx_etcd_address_host(ngx_etcd_member_t *member, ngx_str_t *host,
    ngx_int_t port)
{
    u_char      *p, *last, c;
    ngx_uint_t   letters, label;

    letters = 0;
    label = 0;
    last = host->data + host->len;

    for (p = host->data; p < last; p++) {
        c = (u_char) (*p | 0x20);

        if (*p == '.') {

            if (label == 0) {
                return "is not an IP address";
            }

            label = 0;
            continue;
        }

        if (c >= 'a' && c <= 'z') {
            letters = 1;

        } else if ((*p < '0' || *p > '9') && *p != '-' && *p != '_') {
            return "is not an IP address";
        }

        if (++label > NGX_ETCD_ADDRESS_LABEL) {
            return "has a name that is too long";
        }
    }

    if (!letters) {
        return "is not an IP address";
    }

    if (host->len > NGX_ETCD_MEMBER_MAX_HOST) {
        return "has a name that is too long";
    }

    member->host = *host;
    member->port = (in_port_t) port;

    return ngx_etcd_address_is_name;
}


/* "::ffff:0.0.0.0" is the unspecified address of IPv4. */

static ngx_uint_t
ngx_etcd_address_unspecified(struct sockaddr *sa)
{
    struct in6_addr  *addr;

    if (sa->sa_family == AF_INET6) {
        addr = &((struct sockaddr_in6 *) sa)->sin6_addr;

        if (IN6_IS_ADDR_V4MAPPED(addr)) {
            return addr->s6_addr32[3] == 0;
        }
    }

    return ngx_inet_wildcard(sa);
}


/*
 * ngx_parse_addr() accepts "1..2.3", "1.2.3." and ":1::2", and allocates
 * memory: values from etcd are parsed by the stricter inet_pton().
 */

static char *
ngx_etcd_address_inet(ngx_etcd_member_t *member, int family, ngx_str_t *host,
    ngx_int_t port)
{
    char                  buf[INET6_ADDRSTRLEN];
    ngx_sockaddr_t       *sa;

    if (host->len >= sizeof(buf)
        || ngx_strlchr(host->data, host->data + host->len, '\0') != NULL)
    {
        return ngx_etcd_address_host(member, host, port);
    }

    ngx_memcpy(buf, host->data, host->len);
    buf[host->len] = '\0';

    sa = &member->sockaddr;
    ngx_memzero(sa, sizeof(ngx_sockaddr_t));

    if (family == AF_INET6) {

        if (inet_pton(AF_INET6, buf, &sa->sockaddr_in6.sin6_addr) != 1) {
            return "is not an IP address";
        }

        sa->sockaddr_in6.sin6_family = AF_INET6;
        sa->sockaddr_in6.sin6_port = htons((in_port_t) port);
        member->socklen = sizeof(struct sockaddr_in6);

    } else {

        if (inet_pton(AF_INET, buf, &sa->sockaddr_in.sin_addr) != 1) {
            return ngx_etcd_address_host(member, host, port);
        }

        sa->sockaddr_in.sin_family = AF_INET;
        sa->sockaddr_in.sin_port = htons((in_port_t) port);
        member->socklen = sizeof(struct sockaddr_in);
    }

    if (ngx_etcd_address_unspecified(&sa->sockaddr)) {
        return "is the unspecified address";
    }

    ngx_etcd_address_name(member);

    return NULL;
}


/*
 * Returns NULL, or what is wrong.  The port of a text without one is
 * "otherwise", unless that is 0.
 */

static char *
ngx_etcd_address_parse(ngx_etcd_member_t *member, ngx_str_t *text,
    ngx_uint_t otherwise)
{
    int         family;
    char       *err;
    ngx_int_t   n;
    ngx_str_t   host, port;

    if (text->len == 0) {
        return "is empty";
    }

    err = ngx_etcd_address_printable(text);
    if (err != NULL) {
        return err;
    }

    if (text->len >= sizeof("unix:") - 1
        && ngx_strncmp(text->data, "unix:", sizeof("unix:") - 1) == 0)
    {
        host.data = text->data + sizeof("unix:") - 1;
        host.len = text->len - (sizeof("unix:") - 1);

        return ngx_etcd_address_unix(member, &host);
    }

    err = ngx_etcd_address_split(text, &host, &port);
    if (err != NULL) {
        return err;
    }

    family = (text->data[0] == '[') ? AF_INET6 : AF_INET;
    n = otherwise;

    if (port.data != NULL) {
        n = ngx_atoi(port.data, port.len);

        if (port.len > sizeof("65535") - 1 || n < 1 || n > 65535) {
            return "has a port that is not an integer from 1 to 65535";
        }

    } else if (n == 0) {
        return "has no port";
    }

    return ngx_etcd_address_inet(member, family, &host, n);
}


ngx_int_t
ngx_etcd_address_set(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    char *field, ngx_str_t *text, ngx_uint_t port)
{
    if (port == 0) {
        port = d->conf->port;
    }

    return ngx_etcd_address_check(d, member, field, text,
                                  ngx_etcd_address_parse(member, text, port));
}


ngx_int_t
ngx_etcd_address_set_bare(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    char *field, ngx_str_t *text, ngx_uint_t port)
{
    char    *err;
    u_char   addr[16];

    if (port == 0) {
        port = d->conf->port;
    }

    err = (port != 0 && ngx_inet6_addr(text->data, text->len, addr) == NGX_OK)
          ? ngx_etcd_address_inet(member, AF_INET6, text, port)
          : ngx_etcd_address_parse(member, text, port);

    return ngx_etcd_address_check(d, member, field, text, err);
}


ngx_int_t
ngx_etcd_address_set_unix(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    char *field, ngx_str_t *path)
{
    char  *err;

    err = ngx_etcd_address_printable(path);

    if (err == NULL) {
        err = ngx_etcd_address_unix(member, path);
    }

    return ngx_etcd_address_check(d, member, field, path, err);
}


ngx_int_t
ngx_etcd_address_set_url(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    char *field, ngx_etcd_url_t *url)
{
    ngx_str_t  *scheme;

    scheme = &d->conf->scheme;

    if (scheme->len != 0 && !ngx_etcd_str_alike(scheme, &url->scheme)) {
        return NGX_DECLINED;
    }

    return ngx_etcd_address_set(d, member, field, &url->authority,
                                ngx_etcd_url_port(&url->scheme));
}


/*
 * Decodes the last segment of the key into buf.  Returns NULL, or what is
 * wrong; the segment points into the key then.
 */

static char *
ngx_etcd_address_segment(ngx_str_t *key, ngx_str_t *segment, u_char *buf)
{
    ngx_str_t  parent, text;

    ngx_etcd_url_segments(key, &parent, segment);

    if (segment->len > NGX_ETCD_ADDRESS_SEGMENT) {
        return "is too long to be an address";
    }

    text.data = buf;

    if (ngx_etcd_url_decode(&text, segment, 0) != NGX_OK) {
        return "has an invalid percent-encoding";
    }

    *segment = text;

    return NULL;
}


ngx_int_t
ngx_etcd_address_set_key(ngx_etcd_decode_t *d, ngx_etcd_member_t *member)
{
    char       *err;
    u_char      buf[NGX_ETCD_ADDRESS_SEGMENT];
    ngx_str_t   segment;

    err = ngx_etcd_address_segment(&d->key, &segment, buf);

    if (err == NULL) {
        err = ngx_etcd_address_parse(member, &segment, d->conf->port);
    }

    return ngx_etcd_address_check(d, member, NGX_ETCD_ADDRESS_LAST, &segment,
                                  err);
}


ngx_int_t
ngx_etcd_address_shown(ngx_etcd_member_t *member, ngx_str_t *text)
{
    return (ngx_etcd_address_parse(member, text, 0) == NULL
            && member->name_len == text->len
            && ngx_memcmp(member->name, text->data, text->len) == 0)
           ? NGX_OK : NGX_DECLINED;
}


ngx_uint_t
ngx_etcd_address_in_key(ngx_str_t *key)
{
    u_char             buf[NGX_ETCD_ADDRESS_SEGMENT];
    ngx_str_t          segment;
    ngx_etcd_member_t  member;

    return ngx_etcd_address_segment(key, &segment, buf) == NULL
           && ngx_etcd_address_parse(&member, &segment, 0) == NULL;
}


/* Writers in Go put 0, or an empty string, for no port. */

static ngx_int_t
ngx_etcd_address_json_port(json_t *port, ngx_uint_t otherwise)
{
    double     n;
    ngx_str_t  text;

    if (ngx_etcd_json_string(port, &text) != NGX_OK) {

        /* 0 if the port is not a number */

        n = json_number_value(port);

        if (n == 0 && port != NULL && !json_is_number(port)) {
            return NGX_ERROR;
        }

    } else if (text.len == 0) {
        n = 0;

    } else if (ngx_etcd_json_number(&text, &n) != NGX_OK) {
        return NGX_ERROR;
    }

    if (n == 0) {
        n = otherwise;
    }

    return (n >= 1 && n <= 65535 && n == (ngx_int_t) n) ? (ngx_int_t) n
                                                        : NGX_ERROR;
}


ngx_int_t
ngx_etcd_address_set_host(ngx_etcd_decode_t *d, ngx_etcd_member_t *member,
    json_t *host, json_t *port, ngx_uint_t otherwise)
{
    int         family;
    char       *host_field, *port_field;
    ngx_int_t   n;
    ngx_str_t   text, ip;

    host_field = ngx_etcd_json_pointer_name(&d->layout->host);
    port_field = ngx_etcd_json_pointer_name(&d->layout->port);

    if (ngx_etcd_json_string(host, &text) != NGX_OK) {
        return ngx_etcd_decode_invalid_json(d, host_field, host,
                                            "is not a string");
    }

    if (otherwise == 0) {
        otherwise = d->conf->port;
    }

    if (port == NULL && otherwise == 0) {
        return ngx_etcd_decode_invalid(d, port_field, NULL, "is missing");
    }

    n = ngx_etcd_address_json_port(port, otherwise);
    if (n == NGX_ERROR) {
        return ngx_etcd_decode_invalid_json(d, port_field, port,
                                     "is not an integer from 1 to 65535");
    }

    ip = text;
    family = ngx_strlchr(ip.data, ip.data + ip.len, ':') ? AF_INET6 : AF_INET;

    if (ip.len > 2 && ip.data[0] == '[' && ip.data[ip.len - 1] == ']') {
        ip.data++;
        ip.len -= 2;
        family = AF_INET6;
    }

    return ngx_etcd_address_check(d, member, host_field, &text,
                              ngx_etcd_address_inet(member, family, &ip, n));
}


/*
 * Makes an address of no family that is unique for host and port: members are
 * compared by the bytes of their addresses.
 */

void
ngx_etcd_address_unresolved(ngx_etcd_member_t *member)
{
    u_char      *p;
    ngx_md5_t    md5;

    ngx_md5_init(&md5);
    ngx_md5_update(&md5, member->host.data, member->host.len);
    ngx_md5_update(&md5, &member->port, sizeof(in_port_t));

    ngx_memzero(&member->sockaddr, sizeof(ngx_sockaddr_t));
    ngx_memzero(member->name, NGX_ETCD_MEMBER_NAME_LEN);

    member->sockaddr.sockaddr.sa_family = AF_UNSPEC;
    member->socklen = sizeof(struct sockaddr_in6);
    member->name_len = 0;

    p = (u_char *) &member->sockaddr;
    ngx_md5_final(p + offsetof(struct sockaddr, sa_data), &md5);
}


void
ngx_etcd_address_resolved(ngx_etcd_member_t *member, ngx_sockaddr_t *sockaddr,
    socklen_t socklen)
{
    ngx_memzero(&member->sockaddr, sizeof(ngx_sockaddr_t));
    ngx_memcpy(&member->sockaddr, sockaddr, socklen);

    ngx_inet_set_port(&member->sockaddr.sockaddr, member->port);

    member->socklen = socklen;
    ngx_etcd_address_name(member);
}


char *
ngx_etcd_address_usable(void *conf, struct sockaddr *sa)
{
    return ngx_etcd_address_unspecified(sa)
           ? "is the unspecified address" : ngx_etcd_address_refused(conf, sa);
}
