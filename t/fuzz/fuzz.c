
/*
 * Copyright (C) nginx-etcd contributors
 *
 * The part of a started nginx that nginx's functions need.
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include "fuzz.h"


static ngx_cycle_t      fuzz_cycle;
static ngx_log_t        fuzz_log;
static ngx_open_file_t  fuzz_file;


int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
    ngx_pagesize = 4096;
    ngx_cacheline_size = 64;

    fuzz_file.fd = ngx_stderr;
    fuzz_log.file = &fuzz_file;
    fuzz_log.log_level = NGX_LOG_EMERG;

    ngx_time_init();

    fuzz_cycle.log = &fuzz_log;
    ngx_cycle = &fuzz_cycle;

    return ngx_crc32_table_init() == NGX_OK ? 0 : 1;
}


void
fuzz_fail(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: it does not hold that %s\n", file, line, what);
    abort();
}


ngx_str_t
fuzz_line(const uint8_t **data, size_t *size)
{
    size_t      n;
    ngx_str_t   text;

    for (n = 0; n < *size && (*data)[n] != '\n'; n++) { /* void */ }

    text = fuzz_bytes(data, size, n);

    if (*size != 0) {
        (*data)++;
        (*size)--;
    }

    return text;
}


ngx_str_t
fuzz_bytes(const uint8_t **data, size_t *size, size_t most)
{
    ngx_str_t  text;

    text.len = ngx_min(*size, most);
    text.data = ngx_alloc(ngx_max(text.len, 1), &fuzz_log);

    fuzz_check(text.data != NULL);
    ngx_memcpy(text.data, *data, text.len);

    *data += text.len;
    *size -= text.len;

    return text;
}
