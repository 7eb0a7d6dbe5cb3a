
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_secret.h>
#include <sys/stat.h>
#include "ngx_etcd_tap.h"


#define TEST_PASSWORD_OLD  "the old one"


static char  test_password_file[] = "/tmp/nginx-etcd-password-XXXXXX";


/* Reads a file of these bytes: returns the fault, or the password. */

static char *
test_password_of(char *bytes, size_t n, mode_t mode, ngx_str_t *password)
{
    int         fd;
    char       *fault;
    ngx_err_t   err;

    ngx_memcpy(password->data, TEST_PASSWORD_OLD, sizeof(TEST_PASSWORD_OLD));
    password->len = sizeof(TEST_PASSWORD_OLD) - 1;

    ngx_memcpy(test_password_file + sizeof(test_password_file) - 7, "XXXXXX",
               6);

    fd = mkstemp(test_password_file);

    if (fd == -1 || write(fd, bytes, n) != (ssize_t) n || fchmod(fd, mode) == -1
        || close(fd) == -1)
    {
        abort();
    }

    fault = ngx_etcd_password_read((u_char *) test_password_file, password,
                                   &err);
    (void) unlink(test_password_file);

    return fault;
}


static void
test_password_lines(ngx_pool_t *pool)
{
    char         longest[NGX_ETCD_PASSWORD_MAX + 3];
    ngx_str_t    password;
    u_char       buf[NGX_ETCD_PASSWORD_MAX + 1];

    password.data = buf;

#define test_line(bytes, wanted)                                              \
    tap_check(test_password_of(bytes, sizeof(bytes) - 1, 0600, &password)     \
              == NULL);                                                       \
    tap_text(&password, wanted);                                              \
    tap_check(password.data[password.len] == '\0')

    test_line("secret", "secret");
    test_line("secret\n", "secret");
    test_line("secret\r\n", "secret");
    test_line("secret\nanother\n", "secret");
    test_line("sec\rret\r", "sec\rret\r");
    test_line(" \t\n", " \t");

#undef test_line

    ngx_memset(longest, 'x', sizeof(longest));

    tap_check(test_password_of(longest, NGX_ETCD_PASSWORD_MAX, 0600, &password)
              == NULL);
    tap_check(password.len == NGX_ETCD_PASSWORD_MAX);

    longest[NGX_ETCD_PASSWORD_MAX] = '\r';
    longest[NGX_ETCD_PASSWORD_MAX + 1] = '\n';

    tap_check(test_password_of(longest, NGX_ETCD_PASSWORD_MAX + 2, 0400,
                               &password)
              == NULL);
    tap_check(password.len == NGX_ETCD_PASSWORD_MAX);

    /* A group may read the password of a file of root, and of nobody else. */

    tap_check((test_password_of("secret", 6, 0640, &password) == NULL)
              == (geteuid() == 0));
}


/* The password is unchanged. */

static void
test_password_faults(ngx_pool_t *pool)
{
    char        *fault, longest[NGX_ETCD_PASSWORD_MAX + 2];
    ngx_err_t    err;
    ngx_str_t    password;
    u_char       buf[NGX_ETCD_PASSWORD_MAX + 1];

    password.data = buf;

#define test_fault(bytes, n, mode, wanted)                                    \
    fault = test_password_of(bytes, n, mode, &password);                      \
    tap_check(fault != NULL && ngx_strstr(fault, wanted) != NULL);            \
    tap_text(&password, TEST_PASSWORD_OLD)

    test_fault("", 0, 0600, "empty");
    test_fault("\n", 1, 0600, "empty");
    test_fault("\r\nsecret", 8, 0600, "empty");
    test_fault("a\0b\n", 4, 0600, "zero byte");
    test_fault("secret", 6, 0644, "readable by group");
    test_fault("secret", 6, 0604, "readable by group");

    ngx_memset(longest, 'x', sizeof(longest));
    test_fault(longest, NGX_ETCD_PASSWORD_MAX + 1, 0600, "more than 1024");
    test_fault(longest, NGX_ETCD_PASSWORD_MAX + 2, 0600, "more than 1024");

#undef test_fault

    fault = ngx_etcd_password_read((u_char *) "/nonexistent", &password, &err);
    tap_check(fault != NULL && err == NGX_ENOENT);

    fault = ngx_etcd_password_read((u_char *) "/dev/null", &password, &err);
    tap_check(fault != NULL && err == 0);
    tap_text(&password, TEST_PASSWORD_OLD);
}


/* A file of a token has other limits. */

static void
test_password_token(ngx_pool_t *pool)
{
    int          fd;
    char        *fault, text[NGX_ETCD_TOKEN_MAX + 1];
    ngx_err_t    err;
    ngx_str_t    token;
    ngx_uint_t   i;
    u_char       buf[NGX_ETCD_TOKEN_MAX + 1];

    static struct {
        char    *line;
        size_t   len;
        char    *fault;
    } cases[] = {
        { "a.b-c_d\r\n", 9, NULL },
        { NULL, NGX_ETCD_TOKEN_MAX, NULL },
        { NULL, NGX_ETCD_TOKEN_MAX + 1, "more than 8192" },
        { "a b", 3, "no token has" },
        { "a\0b", 3, "no token has" },
        { "", 0, "empty" }
    };

    token.data = buf;

    ngx_memset(text, 'x', sizeof(text));

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {

        ngx_memcpy(test_password_file + sizeof(test_password_file) - 7,
                   "XXXXXX", 6);

        fd = mkstemp(test_password_file);

        if (fd == -1
            || write(fd, cases[i].line ? cases[i].line : text, cases[i].len)
               != (ssize_t) cases[i].len
            || close(fd) == -1)
        {
            abort();
        }

        fault = ngx_etcd_token_read((u_char *) test_password_file, &token,
                                    &err);
        (void) unlink(test_password_file);

        tap_check((fault == NULL) == (cases[i].fault == NULL));
        tap_check(fault == NULL
                  || ngx_strstr(fault, cases[i].fault) != NULL);
    }
}


ngx_etcd_tap_test_t  test_password[] = {
    { "password: lines", test_password_lines },
    { "password: faults", test_password_faults },
    { "password: a token", test_password_token },
    { NULL, NULL }
};
