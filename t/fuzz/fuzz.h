
/*
 * Copyright (C) nginx-etcd contributors
 *
 * Functions that the fuzzers share.  A finding is an abort.
 */


#ifndef _NGX_ETCD_FUZZ_H_INCLUDED_
#define _NGX_ETCD_FUZZ_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


#define fuzz_check(what)                                                      \
    if (!(what)) {                                                            \
        fuzz_fail(#what, __FILE__, __LINE__);                                 \
    }


/* libFuzzer's */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

void fuzz_fail(const char *what, const char *file, int line);

/*
 * Takes a line, without its end, or at most so many bytes off the input, into
 * memory of just that size: what reads beyond it is seen.  ngx_free() it.
 */
ngx_str_t fuzz_line(const uint8_t **data, size_t *size);
ngx_str_t fuzz_bytes(const uint8_t **data, size_t *size, size_t most);


#endif /* _NGX_ETCD_FUZZ_H_INCLUDED_ */
