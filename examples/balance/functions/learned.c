/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * learned.c - functions that compare a packet with what was learned before: BM25 ranking of documents, nearest
 * neighbours, naive Bayes. What was learned is made from fixed numbers, the same on every side.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "function.h"

/* --- bm25: terms of two bytes; answered by the four best documents with their scores --------------------------------
 */

/* Okapi BM25 with k1 = 1.2 and b = 0.75 (Robertson, Zaragoza, 2009), over 64 documents and 2,048 or 4,096 terms. */
#define DOCUMENTS 64
#define K1 1.2
#define B 0.75
#define BEST 4
#define QUERY_MOST 32

struct corpus {
    uint32_t terms;
    double norm[DOCUMENTS]; /* k1 * (1 - b + b * length / mean length) */
    double *idf;
    uint8_t *frequency; /* of a term in a document */
};

static void *bm25_make(const char *config, struct arena *arena)
{
    (void)arena;
    unsigned long terms = config ? strtoul(config, NULL, 10) : 2048;
    if (terms != 2048 && terms != 4096) {
        fprintf(stderr, "bm25: `%s` is neither 2048 nor 4096 terms\n", config);
        return NULL;
    }
    struct corpus *corpus = calloc(1, sizeof *corpus);
    if (!corpus)
        return NULL;
    *corpus = (struct corpus){
        .terms = (uint32_t)terms, .idf = calloc(terms, sizeof(double)), .frequency = calloc(terms, DOCUMENTS)};
    if (!corpus->idf || !corpus->frequency)
        return NULL;
    double length[DOCUMENTS] = {0}, mean = 0;
    for (uint32_t term = 0; term < terms; term++) {
        unsigned having = 0;
        for (unsigned document = 0; document < DOCUMENTS; document++) {
            uint64_t word = mix((uint64_t)term * DOCUMENTS + document);
            uint8_t times = word % 8 == 0 ? (uint8_t)(1 + (word >> 8) % 7) : 0;
            corpus->frequency[term * DOCUMENTS + document] = times;
            length[document] += times;
            mean += (double)times / DOCUMENTS;
            having += times > 0;
        }
        corpus->idf[term] = log(1 + (DOCUMENTS - having + 0.5) / (having + 0.5));
    }
    for (unsigned document = 0; document < DOCUMENTS; document++)
        corpus->norm[document] = K1 * (1 - B + B * length[document] / mean);
    return corpus;
}

static ssize_t bm25_serve(void *state, uint8_t *packet, size_t size, uint8_t *result, size_t room)
{
    const struct corpus *corpus = state;
    size_t terms = size / 2 < QUERY_MOST ? size / 2 : QUERY_MOST;
    double score[DOCUMENTS] = {0};
    if (terms == 0 || room < BEST * 9)
        return -1;
    for (size_t at = 0; at < terms; at++) {
        uint32_t term = load16(packet + at * 2) % corpus->terms;
        for (unsigned document = 0; document < DOCUMENTS; document++) {
            double times = corpus->frequency[term * DOCUMENTS + document];
            score[document] += corpus->idf[term] * times * (K1 + 1) / (times + corpus->norm[document]);
        }
    }
    for (unsigned rank = 0; rank < BEST; rank++) {
        unsigned best = 0;
        for (unsigned document = 1; document < DOCUMENTS; document++)
            if (score[document] > score[best])
                best = document;
        result[rank * 9] = (uint8_t)best;
        memcpy(result + rank * 9 + 1, &score[best], sizeof(double));
        score[best] = -1;
    }
    return BEST * 9;
}

static size_t bm25_packet(const void *state, uint64_t number, uint8_t *packet)
{
    const struct corpus *corpus = state;
    size_t terms = 4 + mix(number ^ 0x626d) % 13;
    for (size_t at = 0; at < terms; at++)
        store16(packet + at * 2, (uint16_t)skewed(number * QUERY_MOST + at, corpus->terms));
    return terms * 2;
}

const struct function bm25 = {
    .name = "bm25",
    .what = "Okapi BM25 over 64 documents and 2048 (or 4096) terms",
    .make = bm25_make,
    .serve = bm25_serve,
    .packet = bm25_packet,
};

/* --- knn: points of two coordinates, four bytes each; answered by a class for each ----------------------------------
 */

#define CLASSES 5
#define NEIGHBOURS 4
#define TRAINING 16
#define POINTS_MOST 32

struct training {
    uint32_t count;
    int32_t point[TRAINING][2];
    uint8_t class[TRAINING];
};

static void *knn_make(const char *config, struct arena *arena)
{
    (void)arena;
    unsigned long count = config ? strtoul(config, NULL, 10) : TRAINING;
    if (count != 8 && count != 16) {
        fprintf(stderr, "knn: `%s` is neither 8 nor 16 points\n", config);
        return NULL;
    }
    struct training *training = calloc(1, sizeof *training);
    if (!training)
        return NULL;
    training->count = (uint32_t)count;
    for (uint32_t at = 0; at < count; at++) {
        uint64_t word = mix(at ^ 0x6b6e6e);
        training->class[at] = (uint8_t)(at % CLASSES);
        training->point[at][0] = (int32_t)(word % 1000);
        training->point[at][1] = (int32_t)((word >> 32) % 1000);
    }
    return training;
}

struct neighbour {
    int64_t distance;
    uint32_t number;
};

static int nearer(const void *a, const void *b)
{
    const struct neighbour *x = a, *y = b;
    if (x->distance != y->distance)
        return x->distance < y->distance ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

/* The class most of the nearest have; of equally many, the lowest. */
static uint8_t classify(const struct training *training, int32_t x, int32_t y)
{
    struct neighbour all[TRAINING];
    unsigned votes[CLASSES] = {0}, best = 0;
    for (uint32_t at = 0; at < training->count; at++) {
        int64_t dx = x - (int64_t)training->point[at][0], dy = y - (int64_t)training->point[at][1];
        all[at] = (struct neighbour){dx * dx + dy * dy, at};
    }
    qsort(all, training->count, sizeof *all, nearer);
    for (unsigned at = 0; at < NEIGHBOURS; at++)
        votes[training->class[all[at].number]]++;
    for (unsigned class = 1; class < CLASSES; class ++)
        if (votes[class] > votes[best])
            best = class;
    return (uint8_t)best;
}

static ssize_t knn_serve(void *state, uint8_t *packet, size_t size, uint8_t *result, size_t room)
{
    size_t points = size / 8 < POINTS_MOST ? size / 8 : POINTS_MOST;
    if (points == 0 || room < points)
        return -1;
    for (size_t at = 0; at < points; at++)
        result[at] = classify(state, (int32_t)load32(packet + at * 8), (int32_t)load32(packet + at * 8 + 4));
    return (ssize_t)points;
}

static size_t knn_packet(const void *state, uint64_t number, uint8_t *packet)
{
    (void)state;
    for (unsigned at = 0; at < 16; at++)
        store32(packet + at * 4, (uint32_t)(mix(number * 16 + at) % 1000));
    return 64;
}

const struct function knn = {
    .name = "knn",
    .what = "four nearest of 16 (or 8) points in five classes",
    .make = knn_make,
    .serve = knn_serve,
    .packet = knn_packet,
};

/* --- bayes: a bit per feature; answered by the most likely class and its score --------------------------------------
 */

#define KINDS 8
#define FEATURES_MOST 256

struct likelihood {
    uint32_t features;
    /* Natural logarithms: of a class, and of a feature's absence and presence in it. */
    double prior[KINDS];
    double of[KINDS][FEATURES_MOST][2];
};

static void *bayes_make(const char *config, struct arena *arena)
{
    (void)arena;
    unsigned long features = config ? strtoul(config, NULL, 10) : 128;
    if (features != 128 && features != 256) {
        fprintf(stderr, "bayes: `%s` is neither 128 nor 256 features\n", config);
        return NULL;
    }
    struct likelihood *likelihood = calloc(1, sizeof *likelihood);
    if (!likelihood)
        return NULL;
    likelihood->features = (uint32_t)features;
    for (unsigned kind = 0; kind < KINDS; kind++) {
        likelihood->prior[kind] = log((kind + 1) / (KINDS * (KINDS + 1) / 2.0));
        for (uint32_t feature = 0; feature < features; feature++) {
            /* As if seen in 1 to 99 of 100 examples. */
            double seen = (double)(1 + mix((uint64_t)kind * FEATURES_MOST + feature) % 99) / 100;
            likelihood->of[kind][feature][0] = log(1 - seen);
            likelihood->of[kind][feature][1] = log(seen);
        }
    }
    return likelihood;
}

static ssize_t bayes_serve(void *state, uint8_t *packet, size_t size, uint8_t *result, size_t room)
{
    const struct likelihood *likelihood = state;
    double best_score = -INFINITY;
    unsigned best = 0;
    if (size < likelihood->features / 8 || room < 9)
        return -1;
    for (unsigned kind = 0; kind < KINDS; kind++) {
        double score = likelihood->prior[kind];
        for (uint32_t feature = 0; feature < likelihood->features; feature++)
            score += likelihood->of[kind][feature][packet[feature / 8] >> feature % 8 & 1];
        if (score > best_score) {
            best_score = score;
            best = kind;
        }
    }
    result[0] = (uint8_t)best;
    memcpy(result + 1, &best_score, sizeof best_score);
    return 9;
}

static size_t bayes_packet(const void *state, uint64_t number, uint8_t *packet)
{
    const struct likelihood *likelihood = state;
    for (uint32_t at = 0; at < likelihood->features / 8; at += 8)
        store64(packet + at, mix(number * FEATURES_MOST + at));
    return likelihood->features / 8;
}

const struct function bayes = {
    .name = "bayes",
    .what = "naive Bayes of 128 (or 256) binary features, eight classes",
    .make = bayes_make,
    .serve = bayes_serve,
    .packet = bayes_packet,
};
