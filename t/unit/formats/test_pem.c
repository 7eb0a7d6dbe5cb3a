
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_pem.h>
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


static char *
test_check(ngx_pool_t *pool, char *one, size_t len, char *two)
{
    ngx_str_t  *text;

    static char  buf[4096];

    ngx_memcpy(ngx_cpymem(buf, one, len), two, ngx_strlen(two));

    text = tap_bytes(pool, buf, len + ngx_strlen(two));

    return ngx_etcd_pem_check(text);
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
    tap_text(tap_string(pool, ngx_etcd_pem_check(&none)), why);

    why = test_check(pool, test_certificate, certificate / 2, "");
    tap_text(tap_string(pool, why), "a certificate in it is broken");

    why = test_check(pool, test_certificate, certificate / 2,
                     test_certificate);
    tap_text(tap_string(pool, why), "a certificate in it is broken");

    why = test_check(pool, test_key, key / 2, "");
    tap_text(tap_string(pool, why), "its private key is broken or encrypted");
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
    { "private keys", test_pem_has_key },
    { NULL, NULL }
};
