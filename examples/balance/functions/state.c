/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * state.c - functions that remember: a key-value store, counts of items, and moving averages with an alarm. Everything
 * is in the arena, under the lock of the key's bucket, so several processes may serve packet by packet.
 */
#include <stdio.h>
#include <stdlib.h>

#include "arena.h"
#include "function.h"

struct store {
    struct arena *arena;
    /* Of kvs: 1 reads, 2 writes, 3 inserts and deletes, 0 all of them. Of count and ema: items a packet. */
    unsigned mode;
};

/* A number from `low` to `high`, `normal` if nothing is said. */
static bool mode_of(const char *name, const char *config, unsigned normal, unsigned low, unsigned high, unsigned *mode)
{
    char *end = NULL;
    *mode = normal;
    if (!config)
        return true;
    unsigned long value = strtoul(config, &end, 10);
    if (*config == 0 || *end != 0 || value < low || value > high) {
        fprintf(stderr, "%s: `%s` is not a number from %u to %u\n", name, config, low, high);
        return false;
    }
    *mode = (unsigned)value;
    return true;
}

static void *make_store(struct arena *arena, unsigned mode)
{
    struct store *store = malloc(sizeof *store);
    if (store)
        *store = (struct store){arena, mode};
    return store;
}

/* --- kvs: {operation, key, length, value}; answered by {status, length, value} -------------------------------------
 */

enum { KVS_READ = 1, KVS_WRITE, KVS_INSERT, KVS_DELETE };
enum { KVS_OK, KVS_NONE, KVS_THERE, KVS_FULL };
#define KVS_HEAD 11
#define KVS_KEYS 10000

static void *kvs_make(const char *config, struct arena *arena)
{
    unsigned mode;
    return mode_of("kvs", config, 0, 0, 3, &mode) ? make_store(arena, mode) : NULL;
}

static ssize_t kvs_serve(void *state, uint8_t *packet, size_t size, uint8_t *result, size_t room)
{
    struct store *store = state;
    if (size < KVS_HEAD || room < 3 + TABLE_VALUE)
        return -1;
    unsigned operation = packet[0];
    uint64_t key = load64(packet + 1);
    uint16_t length = load16(packet + 9), got = 0;
    uint8_t status = KVS_OK;
    if (operation < KVS_READ || operation > KVS_DELETE || length > TABLE_VALUE || (size_t)length + KVS_HEAD > size)
        return -1;
    bool makes = operation == KVS_WRITE || operation == KVS_INSERT;
    struct entry *entry = table_hold(store->arena, key, makes);
    if (!entry) {
        status = makes ? KVS_FULL : KVS_NONE;
    } else if (operation == KVS_READ) {
        got = (uint16_t)entry->size;
        memcpy(result + 3, entry->value, got);
    } else if (operation == KVS_DELETE) {
        entry->used = 0;
    } else if (operation == KVS_INSERT && entry->used > 1) {
        status = KVS_THERE;
    } else {
        entry->used = 2; /* written, not just made */
        entry->size = length;
        memcpy(entry->value, packet + KVS_HEAD, length);
    }
    table_release(store->arena, key);
    result[0] = status;
    store16(result + 1, got);
    return 3 + got;
}

static size_t kvs_packet(const void *state, uint64_t number, uint8_t *packet)
{
    const struct store *store = state;
    uint64_t word = mix(number ^ 0x6b7673);
    unsigned draw = word % 100, mode = store->mode;
    packet[0] = (uint8_t)(mode == 1   ? KVS_READ
                          : mode == 2 ? KVS_WRITE
                          : mode == 3 ? (draw < 50 ? KVS_INSERT : KVS_DELETE)
                          : draw < 50 ? KVS_READ
                          : draw < 85 ? KVS_WRITE
                          : draw < 95 ? KVS_INSERT
                                      : KVS_DELETE);
    store64(packet + 1, skewed(number, KVS_KEYS));
    uint16_t length = packet[0] == KVS_READ || packet[0] == KVS_DELETE ? 0 : (uint16_t)(8 + word % 57);
    store16(packet + 9, length);
    for (uint16_t at = 0; at < length; at++)
        packet[KVS_HEAD + at] = (uint8_t)(mix(word + at / 8) >> at % 8 * 8);
    return KVS_HEAD + (size_t)length;
}

const struct function kvs = {
    .name = "kvs",
    .what = "key-value store: read, write, insert, delete (1 reads, 2 writes, 3 inserts and deletes, 0 all)",
    .stateful = true,
    .make = kvs_make,
    .serve = kvs_serve,
    .packet = kvs_packet,
};

/* --- count: items of four bytes; answered by how often each was seen -----------------------------------------------
 */

#define COUNT_ITEMS 16
#define COUNT_KEYS 20000

static void *count_make(const char *config, struct arena *arena)
{
    unsigned items;
    return mode_of("count", config, 8, 1, COUNT_ITEMS, &items) ? make_store(arena, items) : NULL;
}

static ssize_t count_serve(void *state, uint8_t *packet, size_t size, uint8_t *result, size_t room)
{
    struct store *store = state;
    size_t items = store->mode;
    if (size < items * 4 || room < items * 8)
        return -1;
    for (size_t at = 0; at < items; at++) {
        uint64_t key = load32(packet + at * 4) | 1ull << 32, seen = 0;
        struct entry *entry = table_hold(store->arena, key, true);
        if (entry) {
            seen = load64(entry->value) + 1;
            store64(entry->value, seen);
        }
        table_release(store->arena, key);
        store64(result + at * 8, seen);
    }
    return (ssize_t)items * 8;
}

static size_t count_packet(const void *state, uint64_t number, uint8_t *packet)
{
    const struct store *store = state;
    for (unsigned at = 0; at < store->mode; at++)
        store32(packet + at * 4, skewed(number * COUNT_ITEMS + at, COUNT_KEYS));
    return store->mode * 4;
}

const struct function count = {
    .name = "count",
    .what = "how often items were seen, 8 (or 1 to 16) in a packet",
    .stateful = true,
    .make = count_make,
    .serve = count_serve,
    .packet = count_packet,
};

/* --- ema: {key, value} of eight bytes; answered by the averages and a bit for each that is above the threshold ------
 */

#define EMA_ALPHA 0.125
#define EMA_ALARM 900.0
#define EMA_KEYS 5000

static void *ema_make(const char *config, struct arena *arena)
{
    unsigned items;
    return mode_of("ema", config, 8, 1, COUNT_ITEMS, &items) ? make_store(arena, items) : NULL;
}

static ssize_t ema_serve(void *state, uint8_t *packet, size_t size, uint8_t *result, size_t room)
{
    struct store *store = state;
    size_t items = store->mode;
    uint16_t alarms = 0;
    if (size < items * 8 || room < items * 8 + 2)
        return -1;
    for (size_t at = 0; at < items; at++) {
        uint64_t key = load32(packet + at * 8) | 2ull << 32;
        double value = load32(packet + at * 8 + 4), average = value;
        struct entry *entry = table_hold(store->arena, key, true);
        if (entry) {
            if (entry->size) {
                memcpy(&average, entry->value, sizeof average);
                average = EMA_ALPHA * value + (1 - EMA_ALPHA) * average;
            }
            entry->size = sizeof average;
            memcpy(entry->value, &average, sizeof average);
        }
        table_release(store->arena, key);
        memcpy(result + 2 + at * 8, &average, sizeof average);
        alarms |= (uint16_t)((average > EMA_ALARM) << at);
    }
    store16(result, alarms);
    return (ssize_t)items * 8 + 2;
}

static size_t ema_packet(const void *state, uint64_t number, uint8_t *packet)
{
    const struct store *store = state;
    for (unsigned at = 0; at < store->mode; at++) {
        uint64_t draw = number * COUNT_ITEMS + at;
        uint32_t key = skewed(draw, EMA_KEYS);
        store32(packet + at * 8, key);
        store32(packet + at * 8 + 4, (uint32_t)(mix(draw ^ 0x656d61) % 1000 + key % 50 * 2));
    }
    return store->mode * 8;
}

const struct function ema = {
    .name = "ema",
    .what = "moving averages with an alarm above 900, 8 (or 1 to 16) keys in a packet",
    .stateful = true,
    .make = ema_make,
    .serve = ema_serve,
    .packet = ema_packet,
};
