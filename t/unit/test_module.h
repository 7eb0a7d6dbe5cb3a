
/*
 * Copyright (C) nginx-etcd contributors
 */


#ifndef _TEST_MODULE_H_INCLUDED_
#define _TEST_MODULE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/*
 * Defines a core module that consists of directives, and the symbols that
 * nginx looks up in the shared object of a dynamic module.  "start" is called
 * by each process that starts; it may be NULL.
 */

#define test_module(name, commands)                                           \
    test_module_start(name, commands, NULL)

#define test_module_start(name, commands, start)                              \
                                                                              \
    static ngx_core_module_t  name##_ctx = {                                  \
        ngx_string(#name),                                                    \
        NULL,                                                                 \
        NULL                                                                  \
    };                                                                        \
                                                                              \
                                                                              \
    static ngx_module_t  name = {                                             \
        NGX_MODULE_V1,                                                        \
        &name##_ctx,                       /* module context */               \
        commands,                          /* module directives */            \
        NGX_CORE_MODULE,                   /* module type */                  \
        NULL,                              /* init master */                  \
        NULL,                              /* init module */                  \
        start,                             /* init process */                 \
        NULL,                              /* init thread */                  \
        NULL,                              /* exit thread */                  \
        NULL,                              /* exit process */                 \
        NULL,                              /* exit master */                  \
        NGX_MODULE_V1_PADDING                                                 \
    };                                                                        \
                                                                              \
                                                                              \
    ngx_module_t  *ngx_modules[] = { &name, NULL };                           \
    char  *ngx_module_names[] = { #name, NULL };                              \
    char  *ngx_module_order[] = { NULL }


#endif /* _TEST_MODULE_H_INCLUDED_ */
