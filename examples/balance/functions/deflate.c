/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * deflate.c - packets compressed with Deflate (RFC 1951), by zlib and by ISA-L. Answered by the compressed bytes.
 */
#include <isa-l/igzip_lib.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#include "function.h"

static void *zlib_make(const char *config, struct arena *arena)
{
    (void)arena;
    int *level = malloc(sizeof *level);
    if (level)
        *level = config ? atoi(config) : 9;
    if (level && (*level < 1 || *level > 9)) {
        fprintf(stderr, "deflate: `%s` is not a level from 1 to 9\n", config);
        return NULL;
    }
    return level;
}

static ssize_t zlib_serve(void *state, uint8_t *packet, size_t size, uint8_t *result, size_t room)
{
    z_stream stream = {.next_in = packet, .avail_in = (uInt)size, .next_out = result, .avail_out = (uInt)room};
    /* As DPDK's compression test: fixed Huffman codes; -15: no header around it. */
    if (deflateInit2(&stream, *(int *)state, Z_DEFLATED, -15, 8, Z_FIXED) != Z_OK)
        return -1;
    int status = deflate(&stream, Z_FINISH);
    deflateEnd(&stream);
    return status == Z_STREAM_END ? (ssize_t)stream.total_out : -1;
}

static void *isal_make(const char *config, struct arena *arena)
{
    (void)arena;
    if (config) {
        fprintf(stderr, "isal: there is nothing to configure\n");
        return NULL;
    }
    return malloc(1);
}

static ssize_t isal_serve(void *state, uint8_t *packet, size_t size, uint8_t *result, size_t room)
{
    (void)state;
    struct isal_zstream stream;
    isal_deflate_stateless_init(&stream);
    stream.next_in = packet;
    stream.avail_in = (uint32_t)size;
    stream.end_of_stream = 1;
    stream.next_out = result;
    stream.avail_out = (uint32_t)room;
    return isal_deflate_stateless(&stream) == COMP_OK ? (ssize_t)stream.total_out : -1;
}

/* Records that resemble each other, as in the files compressors are measured with. */
static size_t text_packet(const void *state, uint64_t number, uint8_t *packet)
{
    (void)state;
    size_t at = 0;
    for (uint64_t record = 0; at + 80 < PACKET_BYTES - 200; record++) {
        uint64_t word = mix(number * 64 + record);
        at += (size_t)snprintf((char *)packet + at, 80, "id=%06u name=user%03u state=%s\n", (unsigned)(word % 1000000),
                               (unsigned)(word >> 32) % 200, word >> 60 > 7 ? "active" : "idle");
    }
    return at;
}

const struct function deflate_zlib = {
    .name = "deflate",
    .what = "Deflate by zlib, level 9 (or 1 to 8)",
    .make = zlib_make,
    .serve = zlib_serve,
    .packet = text_packet,
};

const struct function deflate_isal = {
    .name = "isal",
    .what = "Deflate by ISA-L",
    .make = isal_make,
    .serve = isal_serve,
    .packet = text_packet,
};
