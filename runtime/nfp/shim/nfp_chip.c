/* SPDX-License-Identifier: 0BSD
 *
 * nfp_chip.c (shim) - see nfp_chip.h.
 */
#include "nfp_chip.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nf_threads.h"

#define MOST_BYTES 128
#define CAM 16

static void demand(const char *operation, const void *address, size_t size)
{
    if (size % 4 == 0 && size > 0 && size <= MOST_BYTES && (uintptr_t)address % 4 == 0)
        return;
    fprintf(stderr, "nfp shim: %s of %zu bytes at %p: an NFP moves 1 to 32 whole words\n",
            operation, size, address);
    abort();
}

void mem_read32(void *data, void *address, size_t size)
{
    demand("mem_read32", address, size);
    memcpy(data, address, size);
}

void mem_write32(void *data, void *address, size_t size)
{
    demand("mem_write32", address, size);
    memcpy(address, data, size);
}

void cls_read(void *data, void *address, size_t size)
{
    demand("cls_read", address, size);
    memcpy(data, address, size);
}

void cls_write(void *data, void *address, size_t size)
{
    demand("cls_write", address, size);
    memcpy(address, data, size);
}

void mem_read_atomic(void *data, void *address, size_t size)
{
    demand("mem_read_atomic", address, size);
    if (size == 4)
        *(uint32_t *)data = __atomic_load_n((uint32_t *)address, __ATOMIC_ACQUIRE);
    else
        *(uint64_t *)data = __atomic_load_n((uint64_t *)address, __ATOMIC_ACQUIRE);
}

void mem_write_atomic(void *data, void *address, size_t size)
{
    demand("mem_write_atomic", address, size);
    if (size == 4)
        __atomic_store_n((uint32_t *)address, *(uint32_t *)data, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint64_t *)address, *(uint64_t *)data, __ATOMIC_RELEASE);
}

void mem_test_set(void *data, void *address, size_t size)
{
    demand("mem_test_set", address, size);
    for (size_t at = 0; at < size / 4; at++) {
        uint32_t *word = (uint32_t *)data + at;
        *word = __atomic_fetch_or((uint32_t *)address + at, *word, __ATOMIC_ACQ_REL);
    }
}

int mem_ring_put(unsigned ring, void *data, size_t size)
{
    demand("mem_ring_put", NULL, size);
    return nf_ring_put(ring, data, size) ? (int)size : -1;
}

int mem_ring_get(unsigned ring, void *data, size_t size)
{
    demand("mem_ring_get", NULL, size);
    return nf_ring_get(ring, data, size) ? (int)size : -1;
}

/* ---- The CAM, its entries from the most recently used one
 * -------------------------------------------------------- */

static _Thread_local struct {
    uint32_t tag[CAM];
    unsigned state[CAM];
    unsigned char recent[CAM];
    int started;
} cam;

void cam_clear(void)
{
    memset(&cam, 0, sizeof(cam));
    for (unsigned i = 0; i < CAM; i++)
        cam.recent[i] = (unsigned char)(CAM - 1 - i);
    cam.started = 1;
}

static void use(unsigned entry)
{
    unsigned at = 0;
    while (cam.recent[at] != entry)
        at++;
    memmove(cam.recent + 1, cam.recent, at);
    cam.recent[0] = (unsigned char)entry;
}

cam_lookup_t cam_lookup(uint32_t tag)
{
    if (!cam.started)
        cam_clear();
    for (unsigned i = 0; i < CAM; i++)
        if (cam.tag[i] == tag) {
            use(i);
            return (cam_lookup_t){1, cam.state[i] & 15, i & 15};
        }
    return (cam_lookup_t){0, 0, cam.recent[CAM - 1] & 15};
}

void cam_write(unsigned entry, uint32_t tag, unsigned state)
{
    if (!cam.started)
        cam_clear();
    cam.tag[entry % CAM] = tag;
    cam.state[entry % CAM] = state;
    use(entry % CAM);
}

/* ---- The CRC unit: CRC-32 of IEEE 802.3, first bit highest
 * ----------------------------------------------------------
 */

static _Thread_local uint32_t remainder_now;

void crc_write(uint32_t remainder) { remainder_now = remainder; }

void crc_32_be(uint32_t word, enum CRC_BYTES bytes)
{
    (void)bytes;
    remainder_now ^= word;
    for (int bit = 0; bit < 32; bit++)
        remainder_now = remainder_now << 1 ^ (remainder_now >> 31 ? 0x04c11db7 : 0);
}

uint32_t crc_read(void) { return remainder_now; }

/* ---- The rest
 * --------------------------------------------------------------------------------------------------------
 */

void ctx_swap(void) { nf_board_relax(); }

uint32_t local_csr_read(enum local_csr which)
{
    (void)which;
    return (uint32_t)nf_board_cycles();
}

/* ---- The network block: one sequencer, whose packets leave by their numbers, none of which may be
 * missing ---------
 */

#define WAITING 8192

enum turn { NOT_HERE, LEAVES, GONE };

static struct {
    pthread_mutex_t lock;
    uint32_t next;
    struct {
        enum turn turn;
        unsigned packet;
        unsigned queue;
    } waiting[WAITING];
} sequencer = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Puts a packet in its place, and lets out those whose turn it is. */
static void arrive(uint32_t number, enum turn turn, unsigned packet, unsigned queue)
{
    pthread_mutex_lock(&sequencer.lock);
    if (number - sequencer.next >= WAITING ||
        sequencer.waiting[number % WAITING].turn != NOT_HERE) {
        fprintf(stderr, "nfp shim: packet %u leaves twice, or %d places too early\n", number,
                WAITING);
        abort();
    }
    sequencer.waiting[number % WAITING].turn = turn;
    sequencer.waiting[number % WAITING].packet = packet;
    sequencer.waiting[number % WAITING].queue = queue;
    for (;; sequencer.next++) {
        uint32_t at = sequencer.next % WAITING;
        if (sequencer.waiting[at].turn == NOT_HERE)
            break;
        uint32_t buffer = sequencer.waiting[at].packet;
        if (sequencer.waiting[at].turn == LEAVES)
            nfp_departed(buffer, sequencer.waiting[at].queue);
        sequencer.waiting[at].turn = NOT_HERE;
        nf_ring_put(NF_FREE_RECORDS, &buffer, sizeof(buffer));
    }
    pthread_mutex_unlock(&sequencer.lock);
}

void pkt_nbi_send(unsigned char island, unsigned packet, const struct pkt_ms_info *script,
                  unsigned length, unsigned nbi, unsigned queue, unsigned sequencer_number,
                  unsigned sequence, enum PKT_CTM_SIZE size)
{
    (void)island, (void)script, (void)length, (void)nbi, (void)sequencer_number, (void)size;
    arrive(sequence, LEAVES, packet, queue);
}

void pkt_nbi_drop_seq(unsigned char island, unsigned packet, const struct pkt_ms_info *script,
                      unsigned length, unsigned nbi, unsigned queue, unsigned sequencer_number,
                      unsigned sequence, enum PKT_CTM_SIZE size)
{
    (void)island, (void)script, (void)length, (void)nbi, (void)sequencer_number, (void)size;
    arrive(sequence, GONE, packet, queue);
}

void *nfp_allocate(size_t size) { return calloc(1, (size + 63) & ~(size_t)63); }
