
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_x509.h>


/*
 * A reader of DER (X.690), the encoding of certificates and keys.  It copies
 * nothing and computes nothing: each element is cut off the text at hand, in
 * constant time, if its length is the shortest encoding and fits the text.
 */

#define NGX_ETCD_DER_INTEGER       0x02
#define NGX_ETCD_DER_BIT_STRING    0x03
#define NGX_ETCD_DER_OCTET_STRING  0x04
#define NGX_ETCD_DER_OID           0x06
#define NGX_ETCD_DER_SEQUENCE      0x30

/* a constructed element of that number of its context */
#define ngx_etcd_der_context(n)    (0xa0 | (n))


/*
 * Cuts an element with that tag off the beginning of the text.  NGX_DECLINED:
 * there is none, or it has more than 65535 bytes.
 */

static ngx_int_t
ngx_etcd_der_read(ngx_str_t *text, u_char tag, ngx_str_t *content)
{
    size_t       len, left;
    u_char      *p;
    ngx_uint_t   n;

    if (text->len < 2 || text->data[0] != tag) {
        return NGX_DECLINED;
    }

    p = text->data + 1;
    left = text->len - 2;
    len = *p++;

    if (len & 0x80) {
        n = len & 0x7f;

        if (n == 0 || n > 2 || n > left) {
            return NGX_DECLINED;
        }

        left -= n;
        len = (n == 1) ? p[0] : (size_t) p[0] << 8 | p[1];

        if (len < ((n == 1) ? 0x80 : 0x100)) {
            return NGX_DECLINED;
        }

        p += n;
    }

    if (len > left) {
        return NGX_DECLINED;
    }

    content->data = p;
    content->len = len;

    text->data = p + len;
    text->len = left - len;

    return NGX_OK;
}


/* The same if the text begins with that tag, otherwise the content is empty. */

static ngx_int_t
ngx_etcd_der_optional(ngx_str_t *text, u_char tag, ngx_str_t *content)
{
    if (text->len != 0 && text->data[0] == tag) {
        return ngx_etcd_der_read(text, tag, content);
    }

    ngx_str_null(content);

    return NGX_OK;
}


/* Cuts off an integer that is not negative; drops its leading zero. */

static ngx_int_t
ngx_etcd_der_integer(ngx_str_t *text, ngx_str_t *content)
{
    if (ngx_etcd_der_read(text, NGX_ETCD_DER_INTEGER, content) != NGX_OK
        || content->len == 0
        || (content->data[0] & 0x80))
    {
        return NGX_DECLINED;
    }

    if (content->data[0] != 0) {
        return NGX_OK;
    }

    content->data++;
    content->len--;

    return (content->len == 0 || (content->data[0] & 0x80)) ? NGX_OK
                                                            : NGX_DECLINED;
}


/* Cuts off a bit string of whole bytes. */

static ngx_int_t
ngx_etcd_der_bytes(ngx_str_t *text, ngx_str_t *content)
{
    if (ngx_etcd_der_read(text, NGX_ETCD_DER_BIT_STRING, content) != NGX_OK
        || content->len == 0
        || content->data[0] != 0)
    {
        return NGX_DECLINED;
    }

    content->data++;
    content->len--;

    return NGX_OK;
}


/* The number of bits of such an integer. */

static ngx_uint_t
ngx_etcd_der_bits(ngx_str_t *integer)
{
    u_char      first;
    ngx_uint_t  bits;

    if (integer->len == 0) {
        return 0;
    }

    bits = integer->len * 8;

    for (first = integer->data[0]; !(first & 0x80); first <<= 1) {
        bits--;
    }

    return bits;
}


#define NGX_ETCD_X509_MIN_BITS   512         /* of an RSA key */
#define NGX_ETCD_X509_EXPONENT   64          /* bits of an RSA exponent */
#define NGX_ETCD_X509_SALT       512         /* bytes of a salt of RSASSA-PSS */

#define NGX_ETCD_X509_BROKEN_CERTIFICATE  "a certificate in it is broken"
#define NGX_ETCD_X509_BROKEN_KEY  "its private key is broken or encrypted"

#define NGX_ETCD_X509_KIND                                                    \
    "it has a key that is none of RSA, P-256, P-384, P-521, Ed25519, Ed448"
#define NGX_ETCD_X509_SIZE                                                    \
    "it has an RSA key of more bits than \"max_key_bits=\""
#define NGX_ETCD_X509_NUMBERS                                                 \
    "it has an RSA key whose numbers do not fit each other"
#define NGX_ETCD_X509_PARAMETERS                                              \
    "it has an algorithm with unusual parameters"


typedef enum {
    NGX_ETCD_X509_OTHER = 0,
    NGX_ETCD_X509_RSA,
    NGX_ETCD_X509_PSS,
    NGX_ETCD_X509_EC,
    NGX_ETCD_X509_ED
} ngx_etcd_x509_algorithm_e;


/* An identifier in DER, and what it stands for. */

typedef struct {
    ngx_str_t                  oid;
    ngx_etcd_x509_algorithm_e  algorithm;
    size_t                     size;         /* bytes of a private key */
} ngx_etcd_x509_oid_t;


static ngx_etcd_x509_oid_t  ngx_etcd_x509_algorithms[] = {

    { ngx_string("\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01"),
      NGX_ETCD_X509_RSA, 0 },
    { ngx_string("\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a"),
      NGX_ETCD_X509_PSS, 0 },
    { ngx_string("\x2a\x86\x48\xce\x3d\x02\x01"), NGX_ETCD_X509_EC, 0 },
    { ngx_string("\x2b\x65\x70"), NGX_ETCD_X509_ED, 32 },
    { ngx_string("\x2b\x65\x71"), NGX_ETCD_X509_ED, 57 },

    { ngx_null_string, NGX_ETCD_X509_OTHER, 0 }
};


static ngx_etcd_x509_oid_t  ngx_etcd_x509_curves[] = {

    { ngx_string("\x2a\x86\x48\xce\x3d\x03\x01\x07"), NGX_ETCD_X509_EC, 32 },
    { ngx_string("\x2b\x81\x04\x00\x22"), NGX_ETCD_X509_EC, 48 },
    { ngx_string("\x2b\x81\x04\x00\x23"), NGX_ETCD_X509_EC, 66 },

    { ngx_null_string, NGX_ETCD_X509_OTHER, 0 }
};


static ngx_etcd_x509_oid_t *
ngx_etcd_x509_find(ngx_etcd_x509_oid_t *known, ngx_str_t *oid)
{
    while (known->oid.len != 0 && !ngx_etcd_str_equal(&known->oid, oid)) {
        known++;
    }

    return known;
}


/* The last parameters are absent, or NULL. */

static ngx_uint_t
ngx_etcd_x509_none(ngx_str_t *parameters)
{
    return parameters->len == 0
           || (parameters->len == 2
               && ngx_memcmp(parameters->data, "\x05\x00", 2) == 0);
}


static ngx_uint_t
ngx_etcd_x509_pss(ngx_str_t parameters)
{
    ngx_uint_t  salt;
    ngx_str_t   text, hash, mask, explicit, number;

    if (parameters.len == 0) {
        return 1;
    }

    if (ngx_etcd_der_read(&parameters, NGX_ETCD_DER_SEQUENCE, &text) != NGX_OK
        || parameters.len != 0
        || ngx_etcd_der_optional(&text, ngx_etcd_der_context(0), &hash)
           != NGX_OK
        || ngx_etcd_der_optional(&text, ngx_etcd_der_context(1), &mask)
           != NGX_OK
        || ngx_etcd_der_optional(&text, ngx_etcd_der_context(2), &explicit)
           != NGX_OK)
    {
        return 0;
    }

    if (explicit.len != 0) {

        if (ngx_etcd_der_integer(&explicit, &number) != NGX_OK
            || explicit.len != 0
            || number.len > 2)
        {
            return 0;
        }

        for (salt = 0; number.len != 0; number.len--) {
            salt = salt << 8 | *number.data++;
        }

        if (salt > NGX_ETCD_X509_SALT) {
            return 0;
        }
    }

    /* the number of the trailer is 1 if it is written */

    return ngx_etcd_der_optional(&text, ngx_etcd_der_context(3), &explicit)
           == NGX_OK
           && text.len == 0
           && (explicit.len == 0 || ngx_etcd_str_is(&explicit, "\x02\x01\x01"));
}


/*
 * Reads the identifier of an algorithm; "parameters" gets the rest.  NULL: it
 * is broken.
 */

static ngx_etcd_x509_oid_t *
ngx_etcd_x509_algorithm(ngx_str_t *text, ngx_str_t *parameters)
{
    ngx_str_t  oid;

    if (ngx_etcd_der_read(text, NGX_ETCD_DER_SEQUENCE, parameters) != NGX_OK
        || ngx_etcd_der_read(parameters, NGX_ETCD_DER_OID, &oid) != NGX_OK)
    {
        return NULL;
    }

    return ngx_etcd_x509_find(ngx_etcd_x509_algorithms, &oid);
}


/* Reads the name of a curve and nothing else. */

static ngx_etcd_x509_oid_t *
ngx_etcd_x509_curve(ngx_str_t parameters)
{
    ngx_str_t             oid;
    ngx_etcd_x509_oid_t  *curve;

    if (ngx_etcd_der_read(&parameters, NGX_ETCD_DER_OID, &oid) != NGX_OK
        || parameters.len != 0)
    {
        return NULL;
    }

    curve = ngx_etcd_x509_find(ngx_etcd_x509_curves, &oid);

    return (curve->size != 0) ? curve : NULL;
}


/* Checks modulus and exponent. */

static char *
ngx_etcd_x509_rsa(ngx_str_t *n, ngx_str_t *e, ngx_uint_t max_bits)
{
    if (ngx_etcd_der_bits(n) > max_bits) {
        return NGX_ETCD_X509_SIZE;
    }

    if (ngx_etcd_der_bits(n) < NGX_ETCD_X509_MIN_BITS
        || !(n->data[n->len - 1] & 1)
        || e->len == 0
        || ngx_etcd_der_bits(e) > NGX_ETCD_X509_EXPONENT)
    {
        return NGX_ETCD_X509_NUMBERS;
    }

    return NULL;
}


/* Reads the key of a certificate, after its algorithm. */

static char *
ngx_etcd_x509_public_key(ngx_str_t *text, ngx_etcd_x509_oid_t *algorithm,
    ngx_str_t *parameters, ngx_uint_t max_bits)
{
    size_t                size;
    ngx_str_t             key, numbers, n, e;
    ngx_etcd_x509_oid_t  *curve;

    if (ngx_etcd_der_bytes(text, &key) != NGX_OK || text->len != 0) {
        return NGX_ETCD_X509_BROKEN_CERTIFICATE;
    }

    switch (algorithm->algorithm) {

    case NGX_ETCD_X509_RSA:
    case NGX_ETCD_X509_PSS:

        if (ngx_etcd_der_read(&key, NGX_ETCD_DER_SEQUENCE, &numbers) != NGX_OK
            || key.len != 0
            || ngx_etcd_der_integer(&numbers, &n) != NGX_OK
            || ngx_etcd_der_integer(&numbers, &e) != NGX_OK
            || numbers.len != 0)
        {
            return NGX_ETCD_X509_BROKEN_CERTIFICATE;
        }

        return ngx_etcd_x509_rsa(&n, &e, max_bits);

    case NGX_ETCD_X509_EC:

        curve = ngx_etcd_x509_curve(*parameters);
        size = curve->size;

        return (key.len == 1 + size || key.len == 1 + 2 * size)
               ? NULL : NGX_ETCD_X509_BROKEN_CERTIFICATE;

    default: /* NGX_ETCD_X509_ED */

        return (key.len == algorithm->size) ? NULL
                                            : NGX_ETCD_X509_BROKEN_CERTIFICATE;
    }
}


/* Checks the algorithm of a key with its parameters. */

static char *
ngx_etcd_x509_key_algorithm(ngx_etcd_x509_oid_t *algorithm,
    ngx_str_t *parameters)
{
    ngx_uint_t  good;

    switch (algorithm->algorithm) {

    case NGX_ETCD_X509_RSA:
        good = ngx_etcd_x509_none(parameters);
        break;

    case NGX_ETCD_X509_PSS:
        good = ngx_etcd_x509_pss(*parameters);
        break;

    case NGX_ETCD_X509_EC:

        if (ngx_etcd_x509_curve(*parameters) == NULL) {
            return NGX_ETCD_X509_KIND;
        }

        return NULL;

    case NGX_ETCD_X509_ED:
        good = (parameters->len == 0);
        break;

    default: /* NGX_ETCD_X509_OTHER */
        return NGX_ETCD_X509_KIND;
    }

    return good ? NULL : NGX_ETCD_X509_PARAMETERS;
}


/* Nothing verifies the signature here, but OpenSSL decodes its parameters. */

static char *
ngx_etcd_x509_signature(ngx_str_t *text)
{
    ngx_str_t             parameters;
    ngx_uint_t            good;
    ngx_etcd_x509_oid_t  *algorithm;

    algorithm = ngx_etcd_x509_algorithm(text, &parameters);

    if (algorithm == NULL) {
        return NGX_ETCD_X509_BROKEN_CERTIFICATE;
    }

    good = (algorithm->algorithm == NGX_ETCD_X509_PSS)
           ? ngx_etcd_x509_pss(parameters) : ngx_etcd_x509_none(&parameters);

    return good ? NULL : NGX_ETCD_X509_PARAMETERS;
}


/* Checks the part of a certificate that is signed: TBSCertificate. */

static char *
ngx_etcd_x509_signed(ngx_str_t text, ngx_uint_t max_bits)
{
    char                 *err;
    ngx_str_t             skipped, key, parameters;
    ngx_uint_t            i;
    ngx_etcd_x509_oid_t  *algorithm;

    /* version, serial number */

    if (ngx_etcd_der_optional(&text, ngx_etcd_der_context(0), &skipped)
        != NGX_OK
        || ngx_etcd_der_read(&text, NGX_ETCD_DER_INTEGER, &skipped) != NGX_OK)
    {
        return NGX_ETCD_X509_BROKEN_CERTIFICATE;
    }

    err = ngx_etcd_x509_signature(&text);

    if (err != NULL) {
        return err;
    }

    /* issuer, validity, subject, key */

    for (i = 0; i < 4; i++) {
        if (ngx_etcd_der_read(&text, NGX_ETCD_DER_SEQUENCE, &key) != NGX_OK) {
            return NGX_ETCD_X509_BROKEN_CERTIFICATE;
        }
    }

    algorithm = ngx_etcd_x509_algorithm(&key, &parameters);

    if (algorithm == NULL) {
        return NGX_ETCD_X509_BROKEN_CERTIFICATE;
    }

    err = ngx_etcd_x509_key_algorithm(algorithm, &parameters);

    return (err != NULL) ? err
                         : ngx_etcd_x509_public_key(&key, algorithm,
                                                    &parameters, max_bits);
}


static char *
ngx_etcd_x509_certificate(ngx_str_t text, ngx_uint_t max_bits)
{
    char       *err;
    ngx_str_t   rest, part, signature;

    if (ngx_etcd_der_read(&text, NGX_ETCD_DER_SEQUENCE, &rest) != NGX_OK
        || text.len != 0
        || ngx_etcd_der_read(&rest, NGX_ETCD_DER_SEQUENCE, &part) != NGX_OK)
    {
        return NGX_ETCD_X509_BROKEN_CERTIFICATE;
    }

    err = ngx_etcd_x509_signature(&rest);

    if (err != NULL) {
        return err;
    }

    if (ngx_etcd_der_bytes(&rest, &signature) != NGX_OK || rest.len != 0) {
        return NGX_ETCD_X509_BROKEN_CERTIFICATE;
    }

    return ngx_etcd_x509_signed(part, max_bits);
}


/*
 * RSAPrivateKey of two primes: OpenSSL computes modulo each of them, so their
 * sizes count, too.
 */

static char *
ngx_etcd_x509_pkcs1(ngx_str_t text, ngx_uint_t max_bits)
{
    char        *err;
    ngx_str_t    key, numbers[9], *n;
    ngx_uint_t   i, bits, p, q;

    if (ngx_etcd_der_read(&text, NGX_ETCD_DER_SEQUENCE, &key) != NGX_OK
        || text.len != 0)
    {
        return NGX_ETCD_X509_BROKEN_KEY;
    }

    /* version, n, e, d, p, q, d mod (p - 1), d mod (q - 1), 1/q mod p */

    for (i = 0; i < 9; i++) {
        if (ngx_etcd_der_integer(&key, &numbers[i]) != NGX_OK) {
            return NGX_ETCD_X509_BROKEN_KEY;
        }
    }

    n = numbers;

    err = ngx_etcd_x509_rsa(&n[1], &n[2], max_bits);

    if (err != NULL) {
        return err;
    }

    bits = ngx_etcd_der_bits(&n[1]);
    p = ngx_etcd_der_bits(&n[4]);
    q = ngx_etcd_der_bits(&n[5]);

    if (n[0].len != 0
        || key.len != 0
        || n[3].len == 0
        || ngx_etcd_der_bits(&n[3]) > bits
        || (p + q != bits && p + q != bits + 1)
        || ngx_etcd_der_bits(&n[6]) > p
        || ngx_etcd_der_bits(&n[7]) > q
        || ngx_etcd_der_bits(&n[8]) > p)
    {
        return NGX_ETCD_X509_NUMBERS;
    }

    return NULL;
}


/* ECPrivateKey; the curve is that of PKCS #8, or NULL. */

static char *
ngx_etcd_x509_sec1(ngx_str_t text, ngx_etcd_x509_oid_t *outer)
{
    ngx_str_t             key, version, number, name, explicit, point;
    ngx_etcd_x509_oid_t  *curve;

    if (ngx_etcd_der_read(&text, NGX_ETCD_DER_SEQUENCE, &key) != NGX_OK
        || text.len != 0
        || ngx_etcd_der_integer(&key, &version) != NGX_OK
        || ngx_etcd_der_bits(&version) != 1
        || ngx_etcd_der_read(&key, NGX_ETCD_DER_OCTET_STRING, &number)
           != NGX_OK
        || ngx_etcd_der_optional(&key, ngx_etcd_der_context(0), &name)
           != NGX_OK
        || ngx_etcd_der_optional(&key, ngx_etcd_der_context(1), &explicit)
           != NGX_OK
        || key.len != 0)
    {
        return NGX_ETCD_X509_BROKEN_KEY;
    }

    curve = outer;

    if (name.data != NULL || outer == NULL) {
        curve = ngx_etcd_x509_curve(name);

        if (curve == NULL || (outer != NULL && curve != outer)) {
            return NGX_ETCD_X509_KIND;
        }
    }

    /* some writers omit zeros, or add one */

    if (number.len == 0 || number.len > curve->size + 1) {
        return NGX_ETCD_X509_BROKEN_KEY;
    }

    if (explicit.data != NULL
        && (ngx_etcd_der_bytes(&explicit, &point) != NGX_OK
            || explicit.len != 0
            || (point.len != 1 + curve->size
                && point.len != 1 + 2 * curve->size)))
    {
        return NGX_ETCD_X509_BROKEN_KEY;
    }

    return NULL;
}


/* PrivateKeyInfo; OpenSSL skips the attributes at its end. */

static char *
ngx_etcd_x509_pkcs8(ngx_str_t text, ngx_uint_t max_bits)
{
    char                 *err;
    ngx_str_t             info, version, parameters, key, number;
    ngx_etcd_x509_oid_t  *algorithm;

    if (ngx_etcd_der_read(&text, NGX_ETCD_DER_SEQUENCE, &info) != NGX_OK
        || text.len != 0
        || ngx_etcd_der_integer(&info, &version) != NGX_OK
        || ngx_etcd_der_bits(&version) > 1)
    {
        return NGX_ETCD_X509_BROKEN_KEY;
    }

    algorithm = ngx_etcd_x509_algorithm(&info, &parameters);

    if (algorithm == NULL
        || ngx_etcd_der_read(&info, NGX_ETCD_DER_OCTET_STRING, &key) != NGX_OK)
    {
        return NGX_ETCD_X509_BROKEN_KEY;
    }

    err = ngx_etcd_x509_key_algorithm(algorithm, &parameters);

    if (err != NULL) {
        return err;
    }

    switch (algorithm->algorithm) {

    case NGX_ETCD_X509_RSA:
    case NGX_ETCD_X509_PSS:
        return ngx_etcd_x509_pkcs1(key, max_bits);

    case NGX_ETCD_X509_EC:
        return ngx_etcd_x509_sec1(key, ngx_etcd_x509_curve(parameters));

    default: /* NGX_ETCD_X509_ED */

        if (ngx_etcd_der_read(&key, NGX_ETCD_DER_OCTET_STRING, &number)
            != NGX_OK
            || key.len != 0
            || number.len != algorithm->size)
        {
            return NGX_ETCD_X509_BROKEN_KEY;
        }

        return NULL;
    }
}


char *
ngx_etcd_x509_check(ngx_str_t *der, ngx_etcd_x509_encoding_e encoding,
    ngx_uint_t max_bits)
{
    switch (encoding) {

    case NGX_ETCD_X509_CERTIFICATE:
        return ngx_etcd_x509_certificate(*der, max_bits);

    case NGX_ETCD_X509_PKCS1:
        return ngx_etcd_x509_pkcs1(*der, max_bits);

    case NGX_ETCD_X509_SEC1:
        return ngx_etcd_x509_sec1(*der, NULL);

    default: /* NGX_ETCD_X509_PKCS8 */
        return ngx_etcd_x509_pkcs8(*der, max_bits);
    }
}
