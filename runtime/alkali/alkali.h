/* SPDX-License-Identifier: 0BSD
 *
 * alkali.h as plain C on this machine: what a program of Alkali does, without any part of Nicforge.
 *
 * The program is included behind this header and `native.h`, which runs it. Sizes of what addresses
 * lead to are the compiler's; a table is known by its name. Shared with include/alkali.h is what
 * docs/alkali.md says, and no line.
 */
#ifndef ALKALI_H
#define ALKALI_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AK_ROOM = 1 << 16, AK_ENTRIES = 1 << 12, AK_LARGEST = 256 };

/* A packet: what was emitted, and what came in from the first byte that was not read. */
struct buf_tag {
    uint32_t emitted, read, length;
    uint8_t front[AK_ROOM];
    uint8_t frame[AK_ROOM];
};

/* Older programs have a struct of their own, whose first member leads to the packet. */
#ifndef AK_OWN_BUFFER
typedef struct buf_tag *buf_t;
#endif

static struct buf_tag *ak_packet(const void *argument)
{
    struct buf_tag *found;
    memcpy(&found, argument, sizeof found);
    return found;
}

#define AK_PACKET(b)                                                                               \
    ({                                                                                             \
        __typeof__(b) ak_argument = (b);                                                           \
        ak_packet(&ak_argument);                                                                   \
    })
#define AK_SIZE(p) __builtin_object_size((p), 0)

/* Bits follow each other; they have no sign. */
#define BITS_FIELD(N, name) unsigned long long name : N __attribute__((packed))
#define BITS(N) uint##N##_t

#define ak_TABLE(size, kt, vt, ...)                                                                \
    struct {                                                                                       \
        kt key;                                                                                    \
        vt value;                                                                                  \
        char entries[size];                                                                        \
        __VA_ARGS__                                                                                \
    } *
#define anno_MAX_REPLICA(num) char replicas[num];

#ifndef AK_OWN_BUFFER
static buf_t bufinit(void)
{
    static struct buf_tag made;
    made.emitted = made.read = made.length = 0;
    return &made;
}
#endif

/* A header that is not all there reads as zero and stays. */
static void ak_extract(struct buf_tag *b, uint8_t *to, size_t size)
{
    memset(to, 0, size);
    if (b->length - b->read < size)
        return;
    memcpy(to, b->frame + b->read, size);
    b->read += size;
}
#define bufextract(b, p) ak_extract(AK_PACKET(b), (void *)(p), AK_SIZE(p))

static void ak_emit(struct buf_tag *b, const void *from, size_t size)
{
    memcpy(b->front + b->emitted, from, size);
    b->emitted += size;
}

/* What another packet would leave as. */
static void ak_emit_packet(struct buf_tag *b, struct buf_tag *other)
{
    ak_emit(b, other->front, other->emitted);
    ak_emit(b, other->frame + other->read, other->length - other->read);
    other->emitted = 0;
    other->read = other->length;
}
#define bufemit(b, p)                                                                              \
    _Generic((p),                                                                                  \
        struct buf_tag *: ak_emit_packet(AK_PACKET(b), (void *)(p)),                               \
        default: ak_emit(AK_PACKET(b), (p), AK_SIZE(p)))

/* Entries of all tables, each with the table's name. */
static struct ak_entry {
    const char *table;
    size_t key_size, size;
    uint8_t key[AK_LARGEST], value[AK_LARGEST];
} ak_entries[AK_ENTRIES];
static uint32_t ak_count;

/* The last word of the argument that names a table. */
static const char *ak_name(const char *argument)
{
    const char *name = argument + strlen(argument);
    while (name > argument && (name[-1] == '_' || (name[-1] >= '0' && name[-1] <= '9') ||
                               ((name[-1] | 32) >= 'a' && (name[-1] | 32) <= 'z')))
        name--;
    return name;
}

static struct ak_entry *ak_find(const char *table, const void *key, size_t size)
{
    for (uint32_t i = 0; i < ak_count; i++) {
        struct ak_entry *e = &ak_entries[i];
        if (strcmp(e->table, ak_name(table)) == 0 && e->key_size == size &&
            memcmp(e->key, key, size) == 0)
            return e;
    }
    return NULL;
}

static void ak_lookup(const char *table, const void *key, size_t key_size, void *value, size_t size)
{
    struct ak_entry *e = ak_find(table, key, key_size);
    memset(value, 0, size);
    if (e)
        memcpy(value, e->value, size);
}
#define table_lookup(t, k, v) ak_lookup(#t, (k), AK_SIZE(k), (void *)(v), AK_SIZE(v))

static void ak_update(const char *table, const void *key, size_t key_size, const void *value,
                      size_t size)
{
    struct ak_entry *e = ak_find(table, key, key_size);
    if (!e) {
        if (ak_count == AK_ENTRIES || key_size > AK_LARGEST || size > AK_LARGEST)
            abort();
        e = &ak_entries[ak_count++];
        e->table = ak_name(table);
        e->key_size = key_size;
        memcpy(e->key, key, key_size);
    }
    memcpy(e->value, value, size);
}
#define table_update(t, k, v) ak_update(#t, (k), AK_SIZE(k), (v), AK_SIZE(v))

/* What leaves: a letter, an address, a length, bytes. */
static void ak_leave(char kind, uint64_t address, const void *bytes, uint32_t length)
{
    fwrite(&kind, 1, 1, stdout);
    fwrite(&address, 1, sizeof address, stdout);
    fwrite(&length, 1, sizeof length, stdout);
    fwrite(bytes, 1, length, stdout);
}

static void ak_send(struct buf_tag *b)
{
    ak_emit(b, b->frame + b->read, b->length - b->read);
    ak_leave('s', 0, b->front, b->emitted);
}
#define send_packet(b) ak_send(AK_PACKET(b))
#define EXT__NET_SEND__net_send(b) ak_send(AK_PACKET(b))

static void ak_dma(struct buf_tag *b, uint64_t address, uint32_t size)
{
    const uint32_t rest = b->length - b->read;
    ak_leave('d', address, b->frame + b->read, size < rest ? size : rest);
}
#define EXT__DMA_WRITE_REQ__dma_write(b, command)                                                  \
    ak_dma(AK_PACKET(b), (command)->addr, (command)->size)

#endif
