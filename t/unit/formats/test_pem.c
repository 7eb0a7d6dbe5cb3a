
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_pem.h>
#include <ngx_etcd_x509.h>
#include "ngx_etcd_tap.h"


/* of a key that was made for this test */

static char  test_certificate[] =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBcDCCARWgAwIBAgIUKcZf6Abk2vBoerNeKeHu+VBEQzAwCgYIKoZIzj0EAwIw\n"
    "DDEKMAgGA1UEAwwBdDAgFw0yNjExMjUxNDQ5MjZaGA8yMTI2MTEwMTE0NDkyNlow\n"
    "DDEKMAgGA1UEAwwBdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABHhSyn4Msb8g\n"
    "a2tLzqW96JPMT3eNYIe7TFRsrpUO5/pTqnYKWfo33f0hBOoV+Y60SKUIwB8mnEck\n"
    "+hPE4UOvW5ijUzBRMB0GA1UdDgQWBBRqCOSVO9t+z7Xh7CIx2EZo8+vmdTAfBgNV\n"
    "HSMEGDAWgBRqCOSVO9t+z7Xh7CIx2EZo8+vmdTAPBgNVHRMBAf8EBTADAQH/MAoG\n"
    "CCqGSM49BAMCA0kAMEYCIQCbLg0LnC2WYFR/3CQCViq3SUWrNiNX7j1fFE+srcmP\n"
    "yQIhAIkzOXkig1LWB3O2/rOBckqzNd2p1O2Gqbb7RONQVSTA\n"
    "-----END CERTIFICATE-----\n";

static char  test_key[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg90t9kG0MIEplngPi\n"
    "SE0C6o5OiETF71XM0/zCJkUD8DuhRANCAAR4Usp+DLG/IGtrS86lveiTzE93jWCH\n"
    "u0xUbK6VDuf6U6p2Cln6N939IQTqFfmOtEilCMAfJpxHJPoTxOFDr1uY\n"
    "-----END PRIVATE KEY-----\n";


/* of 1024 bits, made for this test */

static char  test_rsa[] =
    "-----BEGIN RSA PRIVATE KEY-----\n"
    "MIICXQIBAAKBgQDRBUwGHOZXpVdIOQkDaCXkAG3kYcJMZiU3tTI+QYm9QnBRGp1T\n"
    "xisZw6KgDULI1WS3zZe1hdhr8uRjMGuGucqM/iYql/IPNQIvreuPiA2Bfxed+P+r\n"
    "0pg27fSmOmbkPPeldN6kO8bsmPiGQ1dtNIUFH8uHMSNs2LRijvce+O3RGQIDAQAB\n"
    "AoGBAI8NVgOVAdyYT00ho9aOD+iklpFIisbo3a3rt/A9wHwkHWSUl3o/VT4z03hA\n"
    "uyViTqUw8xSL/xuaR87O07iILWPmhHmClPzZnv65r+P3u7dd9dpT8KUfBez6QiPM\n"
    "U/+bup45hh9fvRPawhCbrpYg7nXMDY6AYYisr89YToj8iQJ1AkEA8v7zNHnorWOP\n"
    "lJCLe1BKsiDRwcn24QpXfniuwrjeFv9WE6FI/2d7mIlfNY5pLzh6qXCmGwJYfMI5\n"
    "bcZL6DL0KwJBANw04sBPmgqC6dBLq5RVtRZeDRJRAuSsCX+7oNAkWlvb9I+N6Ero\n"
    "RrFUBzxdAHBqJEWPLJjzjlEE2keHZn8KGcsCQFZzRethg9pMFYTxd+5DPo/pBTdA\n"
    "t0iQ+VfRb7tvMfRUmzcYpnPXSS2Xkfvn0pwuJ9WocjAhwYGBSBU5+z99AUkCQAfJ\n"
    "At9DsTF/8V5A3p8O7KkOyC2GmbCV+HwAmS3iqyMmQp40qSrEzYMFcoAK1bIjvoaL\n"
    "CkuaCMUKg+EVg2UoaUMCQQDBs5/M+hboynJ6ONhMXExHWDrxfkHNroLYcBKWkdYs\n"
    "3oK52jwXJZqgD5GNR2MHEJ39hQ5YWCYIvAPjZqsk2/aJ\n"
    "-----END RSA PRIVATE KEY-----\n";


/* Both texts are the value; "blocks" gets what is left of it. */

static char *
test_blocks(ngx_pool_t *pool, char *one, size_t len, char *two,
    ngx_uint_t max_bits, ngx_str_t *blocks)
{
    u_char     *scratch;
    size_t      size;
    ngx_str_t  *value;

    static char  buf[65536];

    ngx_memcpy(ngx_cpymem(buf, one, len), two, ngx_strlen(two));

    size = len + ngx_strlen(two);
    value = tap_bytes(pool, buf, NGX_ETCD_PEM_ROOM(size));
    scratch = tap_bytes(pool, buf, size)->data;

    blocks->data = value->data;
    blocks->len = size;

    return ngx_etcd_pem_blocks(blocks, max_bits, scratch);
}


static char *
test_check(ngx_pool_t *pool, char *one, size_t len, char *two)
{
    ngx_str_t  blocks;

    return test_blocks(pool, one, len, two, NGX_ETCD_PEM_MAX_BITS, &blocks);
}


static void
test_pem_check(ngx_pool_t *pool)
{
    char       *why;
    size_t      certificate, key;
    ngx_str_t   none;

    certificate = sizeof(test_certificate) - 1;
    key = sizeof(test_key) - 1;

    tap_check(test_check(pool, test_certificate, certificate, "") == NULL);
    tap_check(test_check(pool, test_certificate, certificate,
                         test_certificate)
              == NULL);
    tap_check(test_check(pool, test_key, key, "") == NULL);
    tap_check(test_check(pool, test_certificate, certificate, test_key)
              == NULL);
    tap_check(test_check(pool, test_key, key, test_certificate) == NULL);
    tap_check(test_check(pool, "# text\n\n", 8, test_key) == NULL);

    why = test_check(pool, "", 0, "");
    tap_text(tap_string(pool, why),
             "it has neither a certificate nor a private key in PEM");

    ngx_str_null(&none);
    tap_text(tap_string(pool, ngx_etcd_pem_blocks(&none, 4096, NULL)), why);

    why = test_check(pool, test_certificate, certificate / 2, "");
    tap_text(tap_string(pool, why), "a certificate in it is broken");

    why = test_check(pool, test_certificate, certificate / 2,
                     test_certificate);
    tap_text(tap_string(pool, why), "a certificate in it is broken");

    why = test_check(pool, test_key, key / 2, "");
    tap_text(tap_string(pool, why), "its private key is broken or encrypted");
}


/* Nothing but the blocks is left, and they are written anew. */

static void
test_pem_anew(ngx_pool_t *pool)
{
    char       *p, text[8192];
    size_t      i;
    ngx_str_t   blocks;

    static char  forged[] = "[emerg] 1#1: \x1b[31m forged\n";

    tap_check(test_blocks(pool, forged, sizeof(forged) - 1, test_certificate,
                          4096, &blocks)
              == NULL);
    tap_text(&blocks, test_certificate);

    /* other lines, and no line feed at the end */

    p = text;

    for (i = 0; i < sizeof(test_certificate) - 2; i++) {
        if (test_certificate[i] != '\n' || i < 30 || i > 500) {
            *p++ = test_certificate[i];
        }

        if (i > 30 && i < 500 && i % 70 == 0) {
            p = (char *) ngx_cpymem(p, " \t\r\n", 4);
        }
    }

    *p = '\0';

    tap_check(test_blocks(pool, text, p - text, "\r\n# a comment", 4096,
                          &blocks)
              == NULL);
    tap_text(&blocks, test_certificate);

    /* blocks that are not used, a certificate and a key */

    (void) strcpy(text, "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n"
                        "-----END EC PARAMETERS-----\n");
    (void) strcat(text, test_certificate);
    (void) strcat(text, "subject=a\n");

    tap_check(test_blocks(pool, text, strlen(text), test_key, 4096, &blocks)
              == NULL);

    (void) strcat(strcpy(text, test_certificate), test_key);
    tap_text(&blocks, text);
}


static void
test_pem_limits(ngx_pool_t *pool)
{
    char       *why, text[16384];
    size_t      len;
    ngx_str_t   blocks;
    ngx_uint_t  i;

    len = sizeof(test_rsa) - 1;

    tap_check(test_blocks(pool, test_rsa, len, "", 1024, &blocks) == NULL);

    why = test_blocks(pool, test_rsa, len, "", 1023, &blocks);
    tap_text(tap_string(pool, why),
             "it has an RSA key of more bits than \"max_key_bits=\"");

    why = test_blocks(pool, test_rsa, len, test_key, 4096, &blocks);
    tap_text(tap_string(pool, why), "it has several private keys");

    text[0] = '\0';

    for (i = 0; i < NGX_ETCD_PEM_CERTIFICATES; i++) {
        (void) strcat(text, test_certificate);
    }

    tap_check(test_check(pool, text, strlen(text), test_key) == NULL);

    why = test_check(pool, text, strlen(text), test_certificate);
    tap_text(tap_string(pool, why), "it has more than 10 certificates");

    why = test_check(pool, "", 0, "-----BEGIN DSA PRIVATE KEY-----\nAAAA\n"
                                  "-----END DSA PRIVATE KEY-----\n");
    tap_text(tap_string(pool, why),
             "its private key is in a format that is not used: PKCS #8, \"RSA "
             "PRIVATE KEY\" and \"EC PRIVATE KEY\" are");

    why = test_check(pool, "", 0, "-----BEGIN ENCRYPTED PRIVATE KEY-----\n");
    tap_text(tap_string(pool, why), "its private key is broken or encrypted");

    why = test_check(pool, "", 0,
                     "-----BEGIN RSA PRIVATE KEY-----\n"
                     "Proc-Type: 4,ENCRYPTED\n\nAAAA\n"
                     "-----END RSA PRIVATE KEY-----\n");
    tap_text(tap_string(pool, why), "its private key is broken or encrypted");
}


static ngx_str_t *
test_der(ngx_pool_t *pool, char *pem)
{
    u_char      buf[4096];
    u_char     *p;
    ngx_str_t   base64, der;

    base64.data = p = buf;
    der.data = buf;

    pem = strchr(pem, '\n');

    while (*++pem != '-') {
        if (*pem != '\n') {
            *p++ = *pem;
        }
    }

    base64.len = p - buf;

    if (ngx_decode_base64(&der, &base64) != NGX_OK) {
        abort();
    }

    return tap_bytes(pool, (char *) der.data, der.len);
}


static char *
test_x509(ngx_str_t *der, ngx_uint_t n)
{
    static ngx_etcd_x509_encoding_e  encodings[] = {
        NGX_ETCD_X509_CERTIFICATE, NGX_ETCD_X509_PKCS8, NGX_ETCD_X509_PKCS1
    };

    return ngx_etcd_x509_check(der, encodings[n], 4096);
}


/* Nothing is read beyond the end, whatever the lengths are. */

static void
test_pem_cut(ngx_pool_t *pool)
{
    size_t      i;
    ngx_str_t   cut, *der;
    ngx_uint_t  n, bit;

    static char  *pems[] = { test_certificate, test_key, test_rsa };

    for (n = 0; n < 3; n++) {
        der = test_der(pool, pems[n]);

        tap_check(test_x509(der, n) == NULL);

        for (i = 0; i < der->len; i += 7) {
            cut = *tap_bytes(pool, (char *) der->data, i);
            tap_check(test_x509(&cut, n) != NULL);
        }

        for (i = 0; i < der->len; i++) {
            for (bit = 1; bit < 0x100; bit <<= 1) {
                der->data[i] ^= bit;
                (void) test_x509(der, n);
                der->data[i] ^= bit;
            }
        }
    }
}


static void
test_pem_has_key(ngx_pool_t *pool)
{
    tap_check(ngx_etcd_pem_has_key(tap_string(pool, test_key)));
    tap_check(!ngx_etcd_pem_has_key(tap_string(pool, test_certificate)));
    tap_check(!ngx_etcd_pem_has_key(tap_string(pool, "")));
    tap_check(!ngx_etcd_pem_has_key(tap_string(pool, "PRIVATE KEY----")));
}


ngx_etcd_tap_test_t  test_pem[] = {
    { "certificates and private keys", test_pem_check },
    { "blocks are written anew", test_pem_anew },
    { "limits of keys and chains", test_pem_limits },
    { "keys in DER that are cut or changed", test_pem_cut },
    { "private keys", test_pem_has_key },
    { NULL, NULL }
};
