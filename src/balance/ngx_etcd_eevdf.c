
/*
 * Copyright (C) nginx-etcd contributors
 */


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_etcd_eevdf.h>


/*
 * CYCLE is the virtual time in which every link gets as many turns as its
 * weight: one turn is 2^11 units if 100 000 members have the highest weight.
 * When virtual time exceeds LIMIT, all times are reduced to BASE: every 4096
 * cycles.
 */

#define NGX_ETCD_EEVDF_CYCLE  ((uint64_t) 1 << 50)
#define NGX_ETCD_EEVDF_LIMIT  ((uint64_t) 1 << 62)
#define NGX_ETCD_EEVDF_BASE   ((uint64_t) 1 << 52)


struct ngx_etcd_eevdf_group_s {
    ngx_etcd_node_t         node;       /* in eevdf->groups */
    ngx_etcd_node_t         by_weight;  /* in eevdf->weights */
    ngx_queue_t             queue;      /* if spare */
    ngx_queue_t             buckets;    /* fewest connections first */
    uint64_t                start;      /* virtual time from which the group is
                                           eligible */
    uint64_t                deadline;   /* virtual deadline of the next turn */
    uint64_t                rest;       /* rounding remainder of start */
    ngx_etcd_eevdf_group_t *earliest;   /* earliest deadline in the subtree */
    uint32_t                weight;     /* of each link */
    uint32_t                n;
    uint32_t                load;       /* connections of the first bucket */
};


#define ngx_etcd_eevdf_group(n)                                               \
    (ngx_queue_data(n, ngx_etcd_eevdf_group_t, node))
#define ngx_etcd_eevdf_below(n)  ((n) == NULL ? NULL : ngx_etcd_eevdf_group(n))
#define ngx_etcd_eevdf_weight(n)                                              \
    (ngx_queue_data(n, ngx_etcd_eevdf_group_t, by_weight))
#define ngx_etcd_eevdf_first(g)                                               \
    (ngx_queue_data(ngx_queue_head(&(g)->buckets), ngx_etcd_eevdf_bucket_t,   \
                    queue))
#define ngx_etcd_eevdf_bucket(q)                                              \
    (ngx_queue_data(q, ngx_etcd_eevdf_bucket_t, queue))

#define ngx_etcd_eevdf_group_weight(g)  ((uint64_t) (g)->n * (g)->weight)


static ngx_int_t
ngx_etcd_eevdf_group_compare(ngx_etcd_node_t *one, ngx_etcd_node_t *two)
{
    uint64_t                 x, y;
    ngx_etcd_eevdf_group_t  *a, *b;

    a = ngx_etcd_eevdf_group(one);
    b = ngx_etcd_eevdf_group(two);

    x = (uint64_t) a->load * b->weight;
    y = (uint64_t) b->load * a->weight;

    if (x != y) {
        return (x < y) ? -1 : 1;
    }

    if (a->start != b->start) {
        return (a->start < b->start) ? -1 : 1;
    }

    return (ngx_int_t) b->weight - (ngx_int_t) a->weight;
}


static void
ngx_etcd_eevdf_group_update(ngx_etcd_node_t *node)
{
    ngx_etcd_eevdf_group_t  *group, *left, *right;

    group = ngx_etcd_eevdf_group(node);
    left = ngx_etcd_eevdf_below(node->left);
    right = ngx_etcd_eevdf_below(node->right);

    group->earliest = group;

    if (left != NULL
        && left->earliest->deadline <= group->earliest->deadline)
    {
        group->earliest = left->earliest;
    }

    if (right != NULL
        && right->earliest->deadline < group->earliest->deadline)
    {
        group->earliest = right->earliest;
    }
}


static ngx_int_t
ngx_etcd_eevdf_group_compare_weight(ngx_etcd_node_t *one, ngx_etcd_node_t *two)
{
    return (ngx_int_t) ngx_etcd_eevdf_weight(one)->weight
           - (ngx_int_t) ngx_etcd_eevdf_weight(two)->weight;
}


void
ngx_etcd_eevdf_init(ngx_etcd_eevdf_t *eevdf, ngx_log_t *log)
{
    ngx_memzero(eevdf, sizeof(ngx_etcd_eevdf_t));

    eevdf->groups.compare = ngx_etcd_eevdf_group_compare;
    eevdf->groups.update = ngx_etcd_eevdf_group_update;
    eevdf->weights.compare = ngx_etcd_eevdf_group_compare_weight;
    eevdf->log = log;

    ngx_queue_init(&eevdf->spare_groups);
    ngx_queue_init(&eevdf->spare_buckets);
}


static void
ngx_etcd_eevdf_free(ngx_queue_t *spare, size_t offset)
{
    ngx_queue_t  *q;

    while (!ngx_queue_empty(spare)) {
        q = ngx_queue_head(spare);
        ngx_queue_remove(q);
        ngx_free((u_char *) q - offset);
    }
}


/* There must be no links left. */

void
ngx_etcd_eevdf_done(ngx_etcd_eevdf_t *eevdf)
{
    ngx_etcd_eevdf_free(&eevdf->spare_groups,
                        offsetof(ngx_etcd_eevdf_group_t, queue));
    ngx_etcd_eevdf_free(&eevdf->spare_buckets,
                        offsetof(ngx_etcd_eevdf_bucket_t, queue));
}


ngx_int_t
ngx_etcd_eevdf_reserve(ngx_etcd_eevdf_t *eevdf)
{
    ngx_etcd_eevdf_group_t   *group;
    ngx_etcd_eevdf_bucket_t  *bucket;

    if (ngx_queue_empty(&eevdf->spare_groups)) {
        group = ngx_alloc(sizeof(ngx_etcd_eevdf_group_t), eevdf->log);
        if (group == NULL) {
            return NGX_ERROR;
        }

        ngx_queue_insert_head(&eevdf->spare_groups, &group->queue);
    }

    if (ngx_queue_empty(&eevdf->spare_buckets)) {
        bucket = ngx_alloc(sizeof(ngx_etcd_eevdf_bucket_t), eevdf->log);
        if (bucket == NULL) {
            return NGX_ERROR;
        }

        ngx_queue_insert_head(&eevdf->spare_buckets, &bucket->queue);
    }

    return NGX_OK;
}


static ngx_etcd_eevdf_group_t *
ngx_etcd_eevdf_group_find(ngx_etcd_eevdf_t *eevdf, uint32_t weight)
{
    ngx_etcd_node_t         *node;
    ngx_etcd_eevdf_group_t  *group;

    node = eevdf->weights.root;

    while (node != NULL) {
        group = ngx_etcd_eevdf_weight(node);

        if (group->weight == weight) {
            return group;
        }

        node = (weight < group->weight) ? node->left : node->right;
    }

    return NULL;
}


/*
 * Returns the bucket for that number of connections, searching from "from";
 * there must be a spare bucket.
 */

static ngx_etcd_eevdf_bucket_t *
ngx_etcd_eevdf_bucket_get(ngx_etcd_eevdf_t *eevdf,
    ngx_etcd_eevdf_group_t *group, ngx_queue_t *from, uint32_t conns)
{
    ngx_queue_t              *q, *end;
    ngx_etcd_eevdf_bucket_t  *bucket;

    end = ngx_queue_sentinel(&group->buckets);

    /* find the last bucket with at most "conns" connections */

    q = (from == end) ? ngx_queue_head(&group->buckets) : from;

    while (q != end
           && ngx_etcd_eevdf_bucket(q)->conns < conns)
    {
        q = ngx_queue_next(q);
    }

    if (q == end) {
        q = ngx_queue_last(&group->buckets);
    }

    while (q != end) {
        bucket = ngx_etcd_eevdf_bucket(q);

        if (bucket->conns == conns) {
            return bucket;
        }

        if (bucket->conns < conns) {
            break;
        }

        q = ngx_queue_prev(q);
    }

    bucket = ngx_etcd_eevdf_bucket(ngx_queue_head(&eevdf->spare_buckets));
    ngx_queue_remove(&bucket->queue);

    bucket->group = group;
    bucket->conns = conns;
    ngx_queue_init(&bucket->links);

    ngx_queue_insert_after(q, &bucket->queue);

    return bucket;
}


/* Returns the lag of a group in cycles: turns due by now minus turns had. */

static double
ngx_etcd_eevdf_owed(ngx_etcd_eevdf_t *eevdf, ngx_etcd_eevdf_group_t *group)
{
    return (double) (int64_t) (eevdf->time - group->start)
           * (double) ngx_etcd_eevdf_group_weight(group);
}


static void
ngx_etcd_eevdf_owe(ngx_etcd_eevdf_t *eevdf, ngx_etcd_eevdf_group_t *group,
    double owed)
{
    int64_t  shift;

    shift = (int64_t) (owed / (double) ngx_etcd_eevdf_group_weight(group));

    group->start = eevdf->time - ngx_min(shift, (int64_t) eevdf->time);
}


/*
 * A link was added to the group (n = 1) or removed (n = -1).  The lag of the
 * group is unchanged; the lag of an empty group is shared by all groups.
 */

static void
ngx_etcd_eevdf_resize(ngx_etcd_eevdf_t *eevdf, ngx_etcd_eevdf_group_t *group,
    ngx_int_t n)
{
    double   owed;
    int64_t  shift;

    owed = ngx_etcd_eevdf_owed(eevdf, group);

    group->n += n;
    eevdf->weight += n * (int64_t) group->weight;

    if (group->n != 0) {
        ngx_etcd_eevdf_owe(eevdf, group, owed);

    } else if (eevdf->weight != 0) {
        shift = (int64_t) (owed / (double) eevdf->weight);

        if (shift < 0 && -shift > (int64_t) eevdf->time) {
            shift = -eevdf->time;
        }

        eevdf->time += shift;
    }

    group->rest = 0;
    eevdf->rest = 0;
}


/* Carries the rounding remainder over to later steps. */

static uint64_t
ngx_etcd_eevdf_step(uint64_t *rest, uint64_t weight)
{
    uint64_t  step;

    step = NGX_ETCD_EEVDF_CYCLE / weight;
    *rest += NGX_ETCD_EEVDF_CYCLE % weight;

    if (*rest >= weight) {
        *rest -= weight;
        step++;
    }

    return step;
}


/* Inserts the group into the tree, after its sort keys have changed. */

static void
ngx_etcd_eevdf_insert(ngx_etcd_eevdf_t *eevdf, ngx_etcd_eevdf_group_t *group)
{
    uint64_t  rest;

    rest = group->rest;

    group->load = ngx_etcd_eevdf_first(group)->conns;
    group->deadline = group->start
                      + ngx_etcd_eevdf_step(&rest,
                                            ngx_etcd_eevdf_group_weight(group));

    ngx_etcd_treap_insert(&eevdf->groups, &group->node);
}


ngx_int_t
ngx_etcd_eevdf_add(ngx_etcd_eevdf_t *eevdf, ngx_etcd_eevdf_link_t *link,
    uint32_t weight, uint32_t conns)
{
    ngx_queue_t              *q;
    ngx_etcd_eevdf_group_t   *group;
    ngx_etcd_eevdf_bucket_t  *bucket;

    if (ngx_etcd_eevdf_reserve(eevdf) != NGX_OK) {
        return NGX_ERROR;
    }

    group = ngx_etcd_eevdf_group_find(eevdf, weight);

    if (group == NULL) {
        q = ngx_queue_head(&eevdf->spare_groups);
        ngx_queue_remove(q);

        group = ngx_queue_data(q, ngx_etcd_eevdf_group_t, queue);
        ngx_memzero(group, sizeof(ngx_etcd_eevdf_group_t));

        group->weight = weight;
        group->start = eevdf->time;
        ngx_queue_init(&group->buckets);

        ngx_etcd_treap_insert(&eevdf->weights, &group->by_weight);

    } else {
        ngx_etcd_treap_remove(&eevdf->groups, &group->node);
    }

    bucket = ngx_etcd_eevdf_bucket_get(eevdf, group, &group->buckets, conns);

    ngx_queue_insert_tail(&bucket->links, &link->queue);
    link->bucket = bucket;

    ngx_etcd_eevdf_resize(eevdf, group, 1);
    ngx_etcd_eevdf_insert(eevdf, group);

    return NGX_OK;
}


/* A link has left the bucket. */

static void
ngx_etcd_eevdf_bucket_put(ngx_etcd_eevdf_t *eevdf,
    ngx_etcd_eevdf_bucket_t *bucket)
{
    if (ngx_queue_empty(&bucket->links)) {
        ngx_queue_remove(&bucket->queue);
        ngx_queue_insert_head(&eevdf->spare_buckets, &bucket->queue);
    }
}


void
ngx_etcd_eevdf_remove(ngx_etcd_eevdf_t *eevdf, ngx_etcd_eevdf_link_t *link)
{
    ngx_etcd_eevdf_group_t   *group;
    ngx_etcd_eevdf_bucket_t  *bucket;

    bucket = link->bucket;
    group = bucket->group;

    ngx_etcd_treap_remove(&eevdf->groups, &group->node);

    ngx_queue_remove(&link->queue);
    link->bucket = NULL;

    ngx_etcd_eevdf_bucket_put(eevdf, bucket);
    ngx_etcd_eevdf_resize(eevdf, group, -1);

    if (group->n != 0) {
        ngx_etcd_eevdf_insert(eevdf, group);
        return;
    }

    ngx_etcd_treap_remove(&eevdf->weights, &group->by_weight);
    ngx_queue_insert_head(&eevdf->spare_groups, &group->queue);
}


/*
 * The only link of a group carries the lag of the group to its new group: its
 * weight may be changed after every turn.
 */

ngx_int_t
ngx_etcd_eevdf_reweigh(ngx_etcd_eevdf_t *eevdf, ngx_etcd_eevdf_link_t *link,
    uint32_t weight)
{
    double                   owed;
    uint32_t                 conns;
    uint64_t                 time;
    ngx_etcd_eevdf_group_t  *group;

    if (ngx_etcd_eevdf_reserve(eevdf) != NGX_OK) {
        return NGX_ERROR;
    }

    group = link->bucket->group;
    conns = link->bucket->conns;
    time = eevdf->time;

    owed = (group->n == 1) ? ngx_etcd_eevdf_owed(eevdf, group) : 0;

    ngx_etcd_eevdf_remove(eevdf, link);
    eevdf->time = time;
    (void) ngx_etcd_eevdf_add(eevdf, link, weight, conns);

    group = link->bucket->group;

    ngx_etcd_treap_remove(&eevdf->groups, &group->node);

    owed += ngx_etcd_eevdf_owed(eevdf, group);
    ngx_etcd_eevdf_owe(eevdf, group, owed);

    ngx_etcd_eevdf_insert(eevdf, group);

    return NGX_OK;
}


void
ngx_etcd_eevdf_replace(ngx_etcd_eevdf_link_t *link, ngx_etcd_eevdf_link_t *old)
{
    ngx_queue_insert_after(&old->queue, &link->queue);
    ngx_queue_remove(&old->queue);

    link->bucket = old->bucket;
    old->bucket = NULL;
}


/*
 * EEVDF: among the groups with the lowest load that are eligible, returns the
 * group with the earliest deadline.
 */

static ngx_etcd_eevdf_group_t *
ngx_etcd_eevdf_select(ngx_etcd_eevdf_t *eevdf)
{
    ngx_etcd_node_t         *node;
    ngx_etcd_eevdf_group_t  *first, *group, *left, *best;

    node = eevdf->groups.root;

    if (node == NULL) {
        return NULL;
    }

    if (node->left == NULL && node->right == NULL) {
        return ngx_etcd_eevdf_group(node);
    }

    while (node->left != NULL) {
        node = node->left;
    }

    first = ngx_etcd_eevdf_group(node);
    best = first;
    node = eevdf->groups.root;

    while (node != NULL) {
        group = ngx_etcd_eevdf_group(node);

        if (group->start > eevdf->time
            || (uint64_t) group->load * first->weight
               != (uint64_t) first->load * group->weight)
        {
            node = node->left;
            continue;
        }

        left = ngx_etcd_eevdf_below(node->left);

        if (left != NULL && left->earliest->deadline < best->deadline) {
            best = left->earliest;
        }

        if (group->deadline < best->deadline) {
            best = group;
        }

        node = node->right;
    }

    return best;
}


ngx_etcd_eevdf_link_t *
ngx_etcd_eevdf_next(ngx_etcd_eevdf_t *eevdf)
{
    ngx_etcd_eevdf_group_t  *group;

    group = ngx_etcd_eevdf_select(eevdf);

    if (group == NULL) {
        return NULL;
    }

    return ngx_queue_data(ngx_queue_head(&ngx_etcd_eevdf_first(group)->links),
                          ngx_etcd_eevdf_link_t, queue);
}


static void
ngx_etcd_eevdf_group_set_back(ngx_etcd_node_t *node, void *data)
{
    ngx_etcd_eevdf_t *eevdf = data;

    ngx_etcd_eevdf_group_t  *group;

    group = ngx_etcd_eevdf_weight(node);

    group->start -= ngx_min(group->start,
                            NGX_ETCD_EEVDF_LIMIT - NGX_ETCD_EEVDF_BASE);

    ngx_etcd_eevdf_insert(eevdf, group);
}


void
ngx_etcd_eevdf_take(ngx_etcd_eevdf_t *eevdf, ngx_etcd_eevdf_link_t *link)
{
    uint64_t                  period;
    ngx_etcd_eevdf_group_t   *group;
    ngx_etcd_eevdf_bucket_t  *bucket;

    bucket = link->bucket;
    group = bucket->group;

    ngx_queue_remove(&link->queue);
    ngx_queue_insert_tail(&bucket->links, &link->queue);

    /* with a single group, start and virtual time advance by equal steps */

    if (ngx_etcd_eevdf_group_weight(group) == eevdf->weight
        && group->start <= eevdf->time
        && group->deadline >= eevdf->time)
    {
        return;
    }

    ngx_etcd_treap_remove(&eevdf->groups, &group->node);

    /*
     * Without connections there is always an eligible group.  With
     * connections the least loaded group may not be eligible: advance virtual
     * time to it.
     */

    if (eevdf->time < group->start) {
        eevdf->time = group->start;
    }

    period = NGX_ETCD_EEVDF_CYCLE / ngx_etcd_eevdf_group_weight(group);

    if (eevdf->time > period && group->start < eevdf->time - period) {
        group->start = eevdf->time - period;
    }

    group->start += ngx_etcd_eevdf_step(&group->rest,
                                        ngx_etcd_eevdf_group_weight(group));
    eevdf->time += ngx_etcd_eevdf_step(&eevdf->rest, eevdf->weight);

    ngx_etcd_eevdf_insert(eevdf, group);

    if (eevdf->time > NGX_ETCD_EEVDF_LIMIT) {
        eevdf->time -= NGX_ETCD_EEVDF_LIMIT - NGX_ETCD_EEVDF_BASE;

        /* groups far behind get equal starts: rebuild the tree */

        eevdf->groups.root = NULL;

        ngx_etcd_treap_each(&eevdf->weights, eevdf->weights.root,
                            ngx_etcd_eevdf_group_set_back, eevdf);
    }
}


void
ngx_etcd_eevdf_charge(ngx_etcd_eevdf_t *eevdf, ngx_etcd_eevdf_link_t *link)
{
    if (link->bucket->group->start <= eevdf->time) {
        ngx_etcd_eevdf_take(eevdf, link);
        return;
    }

    ngx_queue_remove(&link->queue);
    ngx_queue_insert_tail(&link->bucket->links, &link->queue);
}


void
ngx_etcd_eevdf_load(ngx_etcd_eevdf_t *eevdf, ngx_etcd_eevdf_link_t *link,
    uint32_t conns)
{
    ngx_etcd_eevdf_group_t   *group;
    ngx_etcd_eevdf_bucket_t  *bucket, *to;

    bucket = link->bucket;
    group = bucket->group;

    if (conns == bucket->conns || ngx_etcd_eevdf_reserve(eevdf) != NGX_OK) {
        return;
    }

    to = ngx_etcd_eevdf_bucket_get(eevdf, group, &bucket->queue, conns);

    ngx_queue_remove(&link->queue);
    ngx_queue_insert_tail(&to->links, &link->queue);
    link->bucket = to;

    ngx_etcd_eevdf_bucket_put(eevdf, bucket);

    conns = ngx_etcd_eevdf_first(group)->conns;

    if (conns != group->load) {
        ngx_etcd_treap_remove(&eevdf->groups, &group->node);
        group->load = conns;
        ngx_etcd_treap_insert(&eevdf->groups, &group->node);
    }
}
