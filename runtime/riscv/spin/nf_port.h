/* SPDX-License-Identifier: 0BSD
 *
 * nf_port.h (riscv, spin) - workers on handler units of a sPIN NIC.
 *
 * A packet comes with a trailer, which the path into the NIC puts behind the frame: when it came,
 * from where, and whose it is. It is worked on where the NIC put it, in the cluster's memory. Every
 * core has NF_CORE_BYTES at the start of its cluster's scratchpad: a stack (the runtime's has one
 * KiB), and room for a frame that grows at its front or is made of a byte string.
 *
 * Frames leave by the NIC's send command. All else goes to the host as records in a ring in its
 * memory; a word that all cores add to says where the next one goes, and the host reads in time.
 */
#ifndef NF_PORT_H
#define NF_PORT_H

#include <nf_spin_port.h>

/* The build says NF_STACK_BYTES, the stack of a core. Room in front of a frame, for headers, and
 * the longest frame that leaves, with its trailer. */
#define NF_ROOM 256
#define NF_FRAME 2048
#define NF_CORE_BYTES (NF_STACK_BYTES + NF_ROOM + NF_FRAME + 64)

/* Behind every frame that comes in: with a frame of 1514 bytes as much as the larger slots of
 * FPsPIN's memory hold. */
struct nf_arrival {
    u64 now;
    u64 seed;
    /* Of the input event, for verify. */
    u32 number;
    /* NF_FROM_HOST: not a frame but a message of the host. */
    u8 port;
    u8 worker;
} __attribute__((packed));

#define NF_FROM_HOST 0xff

/* In front of every output to the host. */
struct nf_record {
    u32 kind;
    u32 size;
    u64 argument;
    u32 number;
    u32 output;
    u32 spare[2];
};

/* Behind every frame that leaves, with NF_VERIFY. */
struct nf_departure {
    u32 number;
    u32 output;
    u32 port;
    u32 spare;
};

extern u32 nf_ring_at;
extern u32 nf_lock_words[];

/* This core's room for a frame, behind its stack: the scratchpad of context 0 begins at 0x14400 of
 * a cluster's memory.
 */
NF_INLINE u8 *nf_core_room(void)
{
    u32 core;
    __asm__ volatile("andi %0, tp, 0x1f" : "=r"(core));
    return (u8 *)(0x1B014400 + core * NF_CORE_BYTES + NF_STACK_BYTES);
}

NF_INLINE u32 nf_fetch_add(u32 *word, u32 by)
{
    return __atomic_fetch_add(word, by, __ATOMIC_RELAXED);
}
NF_INLINE bool nf_lock_try(u32 number)
{
    return !__atomic_exchange_n(&nf_lock_words[number], 1, __ATOMIC_ACQUIRE);
}
NF_INLINE void nf_lock_free(u32 number)
{
    __atomic_store_n(&nf_lock_words[number], 0, __ATOMIC_RELEASE);
}
/* Leaves a lock alone for a while, as the published library does. */
NF_INLINE void nf_idle(void)
{
    for (u32 turns = 8; turns > 0; turns--)
        __asm__ volatile("nop");
}

/* Copies within the NIC by the cluster's engine. */
NF_INLINE void nf_copy(const void *from, void *to, u32 size)
{
    if (!size)
        return;
    u32 copy = nf_spin_copy(from, to, size);
    while (!nf_spin_copy_done(copy)) {
    }
}

static __attribute__((noinline)) void nf_tell(struct nf_worker *w, u32 kind, u64 argument,
                                              const void *bytes, u32 size)
{
    struct nf_record head = {kind, size, argument, w->event, w->outputs++, {0, 0}};
    u32 need = (u32)sizeof(head) + ((size + 7) & ~7u);
    u64 to =
        (u64)MMIO_READ(HWSCHED_HOST_MEM_ADDR_HIGH) << 32 | MMIO_READ(HWSCHED_HOST_MEM_ADDR_LOW);
    to += nf_fetch_add(&nf_ring_at, need);
    u32 first =
        nf_spin_command(NF_SPIN_HOST_DMA, (u32)to, (u32)(to >> 32), (u32)&head, sizeof(head), 1);
    to += sizeof(head);
    /* What bytes lie in may be used for something else as soon as this returns. */
    if (size)
        nf_spin_command_wait(
            nf_spin_command(NF_SPIN_HOST_DMA, (u32)to, (u32)(to >> 32), (u32)bytes, size, 1));
    nf_spin_command_wait(first);
}

/* A frame with room for the trailer behind it. */
NF_INLINE void nf_transmit_frame(struct nf_worker *w, u32 port, u8 *data, u8 *end)
{
    if (NF_VERIFY) {
        struct nf_departure tail = {w->event, w->outputs++, port, 0};
        memcpy(end, &tail, sizeof(tail));
        end += sizeof(tail);
    }
    u32 command = nf_spin_command(NF_SPIN_SEND, port, 0, (u32)data, 0, (u32)(end - data));
    /* The core's room is the next packet's. */
    u8 *room = nf_core_room();
    if (data >= room && data < room + NF_ROOM + NF_FRAME)
        nf_spin_command_wait(command);
}

NF_INLINE void nf_transmit(struct nf_worker *w, u32 port, struct nf_packet *pkt)
{
    nf_transmit_frame(w, port, pkt->data, pkt->end);
}

static __attribute__((noinline, unused)) void nf_transmit_bytes(struct nf_worker *w, u32 port,
                                                                const void *bytes, u32 size)
{
    u8 *room = nf_core_room();
    if (size > NF_FRAME - sizeof(struct nf_departure)) {
        w->lost++;
        return;
    }
    if (bytes != room)
        nf_copy(bytes, room, size);
    nf_transmit_frame(w, port, room, room + size);
}

/* One stage: everything stays here. */
NF_INLINE void nf_hand_on(struct nf_worker *w, u32 event, const void *params, u32 size,
                          struct nf_packet *pkt)
{
    (void)event;
    (void)params;
    (void)size;
    (void)pkt;
    w->lost++;
}

#define NF_MORE_ROOM
/* Moves a frame to where it has room in front. */
static __attribute__((noinline, unused)) u8 *nf_more_room(struct nf_packet *pkt, u8 *data, u8 **end,
                                                          u32 n)
{
    u8 *room = nf_core_room();
    /* Short frames leave more in front. */
    u32 size = (u32)(*end - data), front = n > NF_ROOM ? n : NF_ROOM;
    if (pkt->head == room || front > NF_ROOM + NF_FRAME || size > NF_ROOM + NF_FRAME - front)
        return NULL;
    nf_copy(data, room + front, size);
    pkt->head = room;
    pkt->tail = room + NF_ROOM + NF_FRAME;
    *end = room + front + size;
    return room + front - n;
}

#define NF_GATHER
/* A copy of a packet, put together in the core's room: the packet itself moves there only when it
 * leaves. Null if it is longer than a frame. */
static __attribute__((noinline, unused)) u8 *nf_gather(const u8 *staged, u32 n, const u8 *rest,
                                                       u32 size)
{
    u8 *room = nf_core_room();
    if (n > NF_FRAME || size > NF_FRAME - n)
        return NULL;
    nf_copy(staged, room, n);
    nf_copy(rest, room + n, size);
    return room;
}

#endif
