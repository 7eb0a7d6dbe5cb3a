
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_treap.h>
#include "ngx_etcd_tap.h"


#define TEST_TREAP_NODES  500
#define TEST_TREAP_STEPS  5000


typedef struct {
    ngx_etcd_node_t   node;
    ngx_int_t         key;
    ngx_int_t         sum;        /* of the keys of the subtree */
    ngx_uint_t        there;
} test_treap_node_t;


#define test_treap_of(n)   (ngx_queue_data(n, test_treap_node_t, node))
#define test_treap_sum(n)  ((n) == NULL ? 0 : test_treap_of(n)->sum)


static ngx_int_t
test_treap_compare(ngx_etcd_node_t *one, ngx_etcd_node_t *two)
{
    return test_treap_of(one)->key - test_treap_of(two)->key;
}


static void
test_treap_update(ngx_etcd_node_t *node)
{
    test_treap_of(node)->sum = test_treap_of(node)->key
                               + test_treap_sum(node->left)
                               + test_treap_sum(node->right);
}


/* Returns the number of nodes; -1: order, priorities or a sum are wrong. */

static ngx_int_t
test_treap_check(ngx_etcd_node_t *node, ngx_int_t least, ngx_int_t most)
{
    ngx_int_t           left, right;
    test_treap_node_t  *test;

    if (node == NULL) {
        return 0;
    }

    test = test_treap_of(node);

    if (!test->there || test->key < least || test->key > most
        || (node->left != NULL && node->left->priority > node->priority)
        || (node->right != NULL && node->right->priority > node->priority)
        || test->sum != test->key + test_treap_sum(node->left)
                        + test_treap_sum(node->right))
    {
        return -1;
    }

    left = test_treap_check(node->left, least, test->key - 1);
    right = test_treap_check(node->right, test->key + 1, most);

    return (left == -1 || right == -1) ? -1 : left + right + 1;
}


static ngx_uint_t
test_treap_depth(ngx_etcd_node_t *node)
{
    return (node == NULL) ? 0 : 1 + ngx_max(test_treap_depth(node->left),
                                            test_treap_depth(node->right));
}


static void
test_treap_random(ngx_pool_t *pool)
{
    ngx_int_t                   n;
    ngx_uint_t                  i;
    ngx_etcd_treap_t            treap;
    test_treap_node_t          *node;

    static test_treap_node_t    nodes[TEST_TREAP_NODES];

    srandom(1);
    ngx_memzero(nodes, sizeof(nodes));

    treap.root = NULL;
    treap.compare = test_treap_compare;
    treap.update = test_treap_update;
    n = 0;

    for (i = 0; i < TEST_TREAP_STEPS; i++) {
        node = &nodes[random() % TEST_TREAP_NODES];
        node->key = node - nodes;

        if (node->there) {
            ngx_etcd_treap_remove(&treap, &node->node);
            n--;
        } else {
            ngx_etcd_treap_insert(&treap, &node->node);
            n++;
        }

        node->there ^= 1;

        tap_check(test_treap_check(treap.root, 0, TEST_TREAP_NODES) == n);
    }
}


static void
test_treap_negate(ngx_etcd_node_t *node, void *data)
{
    test_treap_of(node)->key *= -1;
    ++*(ngx_uint_t *) data;
}


/* Keys in order make no list; each() visits all and corrects the sums. */

static void
test_treap_order(ngx_pool_t *pool)
{
    ngx_int_t                   sum;
    ngx_uint_t                  i, n;
    ngx_etcd_treap_t            treap;

    static test_treap_node_t    nodes[TEST_TREAP_NODES];

    srandom(1);
    ngx_memzero(nodes, sizeof(nodes));

    treap.root = NULL;
    treap.compare = test_treap_compare;
    treap.update = test_treap_update;
    sum = 0;
    n = 0;

    ngx_etcd_treap_each(&treap, treap.root, test_treap_negate, &n);
    tap_check(n == 0);

    for (i = 0; i < TEST_TREAP_NODES; i++) {
        nodes[i].key = i;
        nodes[i].there = 1;
        sum += i;
        ngx_etcd_treap_insert(&treap, &nodes[i].node);
    }

    tap_check(test_treap_depth(treap.root) < 40);
    tap_check(test_treap_sum(treap.root) == sum);

    ngx_etcd_treap_each(&treap, treap.root, test_treap_negate, &n);
    tap_check(n == TEST_TREAP_NODES);
    tap_check(test_treap_sum(treap.root) == -sum);

    ngx_etcd_treap_each(&treap, treap.root, NULL, NULL);
    tap_check(test_treap_sum(treap.root) == -sum);
}


ngx_etcd_tap_test_t  test_treap[] = {
    { "treap: random changes", test_treap_random },
    { "treap: in order", test_treap_order },
    { NULL, NULL }
};
