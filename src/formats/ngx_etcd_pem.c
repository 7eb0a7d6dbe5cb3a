
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_pem.h>
#include <ngx_etcd_str.h>
#include <ngx_etcd_x509.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>


#define NGX_ETCD_PEM_BEGIN    "-----BEGIN "
#define NGX_ETCD_PEM_END      "-----END "
#define NGX_ETCD_PEM_DASHES   "-----"
#define NGX_ETCD_PEM_KEY      "PRIVATE KEY-----"

/* bytes in a line */
#define NGX_ETCD_PEM_LINE     48

#define NGX_ETCD_PEM_NOTHING                                                  \
    "it has neither a certificate nor a private key in PEM"
#define NGX_ETCD_PEM_BROKEN_CERTIFICATE  "a certificate in it is broken"
#define NGX_ETCD_PEM_BROKEN_KEY  "its private key is broken or encrypted"


typedef enum {
    NGX_ETCD_PEM_CERTIFICATE = 0,
    NGX_ETCD_PEM_PRIVATE_KEY,                /* in a known format */
    NGX_ETCD_PEM_OTHER_KEY
} ngx_etcd_pem_kind_e;


/* A kind of blocks, by the end of the label; the first one that fits. */

typedef struct {
    ngx_str_t                     label;
    ngx_uint_t                    whole;     /* not only the end */
    ngx_etcd_pem_kind_e           kind;
    ngx_etcd_x509_encoding_e      encoding;
    char                         *broken;
} ngx_etcd_pem_label_t;


typedef struct {
    ngx_etcd_pem_label_t         *label;
    ngx_str_t                     der;
} ngx_etcd_pem_block_t;


/* The blocks of a value: the last one may be the key. */

typedef struct {
    ngx_etcd_pem_block_t          blocks[NGX_ETCD_PEM_CERTIFICATES + 1];
    ngx_uint_t                    n;
    ngx_uint_t                    certificates;
    u_char                       *last;      /* of the decoded bytes */
} ngx_etcd_pem_t;


static ngx_etcd_pem_label_t  ngx_etcd_pem_labels[] = {

    { ngx_string("CERTIFICATE"), 1, NGX_ETCD_PEM_CERTIFICATE,
      NGX_ETCD_X509_CERTIFICATE, NGX_ETCD_PEM_BROKEN_CERTIFICATE },
    { ngx_string("X509 CERTIFICATE"), 1, NGX_ETCD_PEM_CERTIFICATE,
      NGX_ETCD_X509_CERTIFICATE, NGX_ETCD_PEM_BROKEN_CERTIFICATE },
    { ngx_string("PRIVATE KEY"), 1, NGX_ETCD_PEM_PRIVATE_KEY,
      NGX_ETCD_X509_PKCS8, NGX_ETCD_PEM_BROKEN_KEY },
    { ngx_string("RSA PRIVATE KEY"), 1, NGX_ETCD_PEM_PRIVATE_KEY,
      NGX_ETCD_X509_PKCS1, NGX_ETCD_PEM_BROKEN_KEY },
    { ngx_string("EC PRIVATE KEY"), 1, NGX_ETCD_PEM_PRIVATE_KEY,
      NGX_ETCD_X509_SEC1, NGX_ETCD_PEM_BROKEN_KEY },
    { ngx_string("ENCRYPTED PRIVATE KEY"), 1, NGX_ETCD_PEM_OTHER_KEY, 0,
      NGX_ETCD_PEM_BROKEN_KEY },
    { ngx_string(" PRIVATE KEY"), 0, NGX_ETCD_PEM_OTHER_KEY, 0,
      "its private key is in a format that is not used: PKCS #8, \"RSA PRIVATE "
      "KEY\" and \"EC PRIVATE KEY\" are" },

    { ngx_null_string, 0, 0, 0, NULL }
};


/* Cuts a line, and the spaces at its end, off the text. */

static ngx_str_t
ngx_etcd_pem_line(ngx_str_t *text)
{
    u_char     *p, *last;
    ngx_str_t   line;

    last = text->data + text->len;
    p = ngx_strlchr(text->data, last, LF);

    if (p == NULL) {
        p = last;
    }

    line.data = text->data;
    line.len = p - text->data;

    p += (p < last);

    text->data = p;
    text->len = last - p;

    while (line.len != 0 && line.data[line.len - 1] <= ' ') {
        line.len--;
    }

    return line;
}


/* Returns 1 if the line begins or ends a block; "label" gets its label. */

static ngx_uint_t
ngx_etcd_pem_border(ngx_str_t *line, char *begin, ngx_str_t *label)
{
    size_t  len, dashes;

    len = ngx_strlen(begin);
    dashes = sizeof(NGX_ETCD_PEM_DASHES) - 1;

    if (line->len < len + dashes
        || ngx_memcmp(line->data, begin, len) != 0
        || ngx_memcmp(line->data + line->len - dashes, NGX_ETCD_PEM_DASHES,
                      dashes)
           != 0)
    {
        return 0;
    }

    label->data = line->data + len;
    label->len = line->len - len - dashes;

    return 1;
}


/* Returns NULL if blocks with that label are skipped. */

static ngx_etcd_pem_label_t *
ngx_etcd_pem_label(ngx_str_t *label)
{
    ngx_str_t              end;
    ngx_etcd_pem_label_t  *known;

    for (known = ngx_etcd_pem_labels; known->broken != NULL; known++) {

        if (known->label.len > label->len) {
            continue;
        }

        end.len = known->whole ? label->len : known->label.len;
        end.data = label->data + label->len - end.len;

        if (ngx_etcd_str_equal(&end, &known->label)) {
            return known;
        }
    }

    return NULL;
}


/*
 * Decodes the lines up to the end of the block; the decoded bytes follow those
 * of the former blocks.
 */

static ngx_int_t
ngx_etcd_pem_decode(ngx_str_t *text, ngx_str_t *label, u_char **last,
    ngx_str_t *der)
{
    u_char      *p, *filled;
    size_t       i;
    ngx_str_t    line, end, base64;

    p = *last;
    filled = NULL;

    for ( ;; ) {
        if (text->len == 0) {
            return NGX_ERROR;
        }

        line = ngx_etcd_pem_line(text);

        if (ngx_etcd_pem_border(&line, NGX_ETCD_PEM_END, &end)) {
            break;
        }

        for (i = 0; i < line.len; i++) {
            if (line.data[i] == ' ' || line.data[i] == '\t') {
                continue;
            }

            if (line.data[i] == '=') {
                filled = (filled != NULL) ? filled : p;

            } else if (filled != NULL) {
                return NGX_ERROR;
            }

            *p++ = line.data[i];
        }
    }

    base64.data = *last;
    base64.len = p - *last;

    if (!ngx_etcd_str_equal(&end, label)
        || base64.len % 4 != 0
        || (filled != NULL && p - filled > 2))
    {
        return NGX_ERROR;
    }

    /* three bytes are written where four were read */

    der->data = *last;

    if (ngx_decode_base64(der, &base64) != NGX_OK) {
        return NGX_ERROR;
    }

    *last += der->len;

    return NGX_OK;
}


/* Decodes a block, and checks the key in it. */

static char *
ngx_etcd_pem_block(ngx_etcd_pem_t *pem, ngx_str_t *text, ngx_str_t *name,
    ngx_uint_t max_bits)
{
    ngx_etcd_pem_label_t  *label;
    ngx_etcd_pem_block_t  *block;

    label = ngx_etcd_pem_label(name);

    if (label == NULL) {
        return NULL;
    }

    if (label->kind == NGX_ETCD_PEM_OTHER_KEY) {
        return label->broken;
    }

    if (label->kind == NGX_ETCD_PEM_CERTIFICATE) {
        if (pem->certificates++ == NGX_ETCD_PEM_CERTIFICATES) {
            return "it has more than 10 certificates";
        }

    } else if (pem->n != pem->certificates) {
        return "it has several private keys";
    }

    block = &pem->blocks[pem->n++];
    block->label = label;

    if (ngx_etcd_pem_decode(text, name, &pem->last, &block->der) != NGX_OK) {
        return label->broken;
    }

    return ngx_etcd_x509_check(&block->der, label->encoding, max_bits);
}


static void
ngx_etcd_pem_encode(ngx_etcd_pem_t *pem, ngx_str_t *value)
{
    u_char      *p;
    size_t       i, n;
    ngx_str_t    line, base64, *der, *label;
    ngx_uint_t   k;

    p = value->data;

    for (k = 0; k < pem->n; k++) {
        der = &pem->blocks[k].der;
        label = &pem->blocks[k].label->label;

        p = ngx_sprintf(p, NGX_ETCD_PEM_BEGIN "%V" NGX_ETCD_PEM_DASHES "\n",
                        label);

        for (i = 0; i < der->len; i += n) {
            n = ngx_min(der->len - i, NGX_ETCD_PEM_LINE);

            line.data = der->data + i;
            line.len = n;

            base64.data = p;
            ngx_encode_base64(&base64, &line);

            p += base64.len;
            *p++ = LF;
        }

        p = ngx_sprintf(p, NGX_ETCD_PEM_END "%V" NGX_ETCD_PEM_DASHES "\n",
                        label);
    }

    value->len = p - value->data;
}


/* OpenSSL would ask on the terminal. */

static int
ngx_etcd_pem_password(char *buf, int size, int rwflag, void *data)
{
    return 0;
}


/* Reads the first key and all certificates, as nginx does. */

static char *
ngx_etcd_pem_read(ngx_etcd_pem_t *pem, ngx_str_t *value)
{
    BIO         *bio;
    X509        *x509;
    EVP_PKEY    *key;
    ngx_uint_t   n;

    bio = BIO_new_mem_buf(value->data, (int) value->len);
    if (bio == NULL) {
        return "no memory to read it";
    }

    for (n = 0; n < pem->certificates; n++) {
        x509 = PEM_read_bio_X509(bio, NULL, ngx_etcd_pem_password, NULL);

        if (x509 == NULL) {
            break;
        }

        X509_free(x509);
    }

    if (pem->n != pem->certificates) {
        (void) BIO_reset(bio);

        key = PEM_read_bio_PrivateKey(bio, NULL, ngx_etcd_pem_password, NULL);

        if (key == NULL) {
            BIO_free(bio);
            return NGX_ETCD_PEM_BROKEN_KEY;
        }

        EVP_PKEY_free(key);
    }

    BIO_free(bio);

    return (n == pem->certificates) ? NULL : NGX_ETCD_PEM_BROKEN_CERTIFICATE;
}


char *
ngx_etcd_pem_blocks(ngx_str_t *value, ngx_uint_t max_bits, u_char *buf)
{
    char            *err;
    size_t           len;
    ngx_str_t        text, line, name;
    ngx_etcd_pem_t   pem;

    ngx_memzero(&pem, sizeof(ngx_etcd_pem_t));

    pem.last = buf;

    text = *value;
    len = value->len;
    err = NULL;

    while (text.len != 0 && err == NULL) {
        line = ngx_etcd_pem_line(&text);

        if (ngx_etcd_pem_border(&line, NGX_ETCD_PEM_BEGIN, &name)) {
            err = ngx_etcd_pem_block(&pem, &text, &name, max_bits);
        }
    }

    if (err == NULL && pem.n == 0) {
        err = NGX_ETCD_PEM_NOTHING;
    }

    if (err == NULL) {
        ngx_etcd_pem_encode(&pem, value);
        err = ngx_etcd_pem_read(&pem, value);

        ERR_clear_error();
    }

    if (len != 0) {
        ngx_explicit_memzero(buf, len);
    }

    return err;
}


ngx_uint_t
ngx_etcd_pem_has_key(ngx_str_t *value)
{
    /* the data of an empty value may be NULL */

    return value->len >= sizeof(NGX_ETCD_PEM_KEY) - 1
           && ngx_strnstr(value->data, NGX_ETCD_PEM_KEY, value->len) != NULL;
}
