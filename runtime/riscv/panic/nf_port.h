/* SPDX-License-Identifier: 0BSD
 *
 * nf_port.h (riscv, panic) - a worker on a core behind a scheduler. A message comes into a buffer
 * in the core's memory, where the frame is worked on, and leaves in pieces that lie in that memory.
 * Everything a message carries is in the message: cores share nothing.
 */
#ifndef NF_PORT_H
#define NF_PORT_H

/* Room for a frame that outgrows its buffer: in front, and the longest frame. */
#define NF_ROOM 256
#define NF_FRAME 2048
#define NF_CORE_BYTES 0

#define NF_RECEIVE (*(volatile u32 *)0x20000000)
#define NF_RELEASE (*(volatile u32 *)0x20000008)
#define NF_TO (*(volatile u32 *)0x20000010)
#define NF_BITS (*(volatile u32 *)0x20000014)
#define NF_PIECE_AT (*(volatile u32 *)0x20000018)
#define NF_PIECE_BYTES (*(volatile u32 *)0x2000001c)
#define NF_SEND (*(volatile u32 *)0x20000020)
/* An engine beside the core that sums or takes CRCs, with NF_ENGINE_SUMS or NF_ENGINE_CRCS. */
#define NF_ENGINE_AT (*(volatile u32 *)0x20000030)
#define NF_ENGINE_FIRST (*(volatile u32 *)0x20000034)
#define NF_ENGINE_SUM (*(volatile u32 *)0x20000038)
#define NF_ENGINE_CRC (*(volatile u32 *)0x2000003c)
#define NF_ENGINE_RESULT (*(volatile u32 *)0x20000040)
/* The buffer of the message in hand, and the message in it. */
#define NF_BUFFER ((u8 *)0x20010000)
#define NF_RECEIVED ((u8 *)0x20010100)
#define NF_OUTSIDE 0x80000000u

#ifndef NF_CONTEXT_BYTES
#define NF_CONTEXT_AT(pkt) NULL
#define NF_CONTEXT_SIZE 0u
#else
#define NF_CONTEXT_AT(pkt) ((pkt)->context)
#define NF_CONTEXT_SIZE ((u32)NF_CONTEXT_BYTES)
#endif

/* In front of a message for a stage. The frame follows, then parameters, emitted bytes and what
 * stages leave for later ones, each at a multiple of 8. */
struct nf_message {
    /* Of the input event. */
    u32 number;
    u32 event;
    u32 port;
    u32 cursor;
    u64 now;
    u64 seed;
    u64 draws;
    u32 staged;
    u32 params;
    u32 bytes;
    u32 spare;
};

/* In front of an output, with NF_VERIFY: of which input event it is, and which of its outputs. */
struct nf_output {
    u32 number;
    u32 output;
    u64 argument;
};

/* What hardware beside the core reads and writes is in memory, and nothing of it moves across. */
#define NF_BARRIER() __asm__ volatile("" ::: "memory")

#if NF_ENGINE_SUMS
#define NF_SUM_BYTES nf_engine_sum
#define NF_SUMMED_HERE 12
/* Ones-complement sum of bytes as they lie in memory. */
NF_INLINE u32 nf_engine_sum(const void *bytes, u32 n)
{
    NF_BARRIER();
    NF_ENGINE_AT = (u32)bytes;
    NF_ENGINE_SUM = n;
    u32 result = NF_ENGINE_RESULT;
    NF_BARRIER();
    return result;
}
#endif

#if NF_ENGINE_CRCS
#define NF_CRC_BYTES nf_engine_crc
/* CRC32C of a word and bytes, before it is inverted. */
NF_INLINE u32 nf_engine_crc(u32 first, const void *bytes, u32 n)
{
    NF_BARRIER();
    NF_ENGINE_AT = (u32)bytes;
    NF_ENGINE_FIRST = first;
    NF_ENGINE_CRC = n;
    u32 result = NF_ENGINE_RESULT;
    NF_BARRIER();
    return result;
}
#endif

NF_INLINE u32 nf_round(u32 bytes) { return (bytes + 7) & ~7u; }

/* Nothing is shared. */
NF_INLINE bool nf_lock_try(u32 number)
{
    (void)number;
    return true;
}
NF_INLINE void nf_lock_free(u32 number) { (void)number; }
NF_INLINE void nf_idle(void) {}

/* The next piece of the message that leaves next. */
NF_INLINE void nf_piece(const void *at, u32 bytes)
{
    NF_PIECE_AT = (u32)at;
    NF_PIECE_BYTES = bytes;
}

NF_INLINE void nf_leave(void)
{
    NF_BARRIER();
    NF_SEND = 1;
    NF_BARRIER();
}

static inline void nf_tell(struct nf_worker *w, u32 kind, u64 argument, const void *bytes, u32 size)
{
    struct nf_output head = {w->event, w->outputs, argument};
    NF_TO = NF_OUTSIDE | kind;
    NF_BITS = (u32)argument;
    if (NF_VERIFY) {
        w->outputs++;
        nf_piece(&head, sizeof(head));
    }
    nf_piece(bytes, size);
    nf_leave();
}

NF_INLINE void nf_transmit(struct nf_worker *w, u32 port, struct nf_packet *pkt)
{
    nf_tell(w, NF_OUT_SEND, port, pkt->data, (u32)(pkt->end - pkt->data));
}

NF_INLINE void nf_transmit_bytes(struct nf_worker *w, u32 port, const void *bytes, u32 size)
{
    nf_tell(w, NF_OUT_SEND, port, bytes, size);
}

/* To another stage. */
static __attribute__((noinline, unused)) void
nf_hand_on(struct nf_worker *w, u32 event, const void *params, u32 size, struct nf_packet *pkt)
{
    u32 stage = nf_stage_of[event], frame = pkt ? (u32)(pkt->end - pkt->data) : 0;
    struct nf_message head = {.number = w->event,
                              .event = event,
                              .port = pkt ? pkt->in_port : 0,
                              .cursor = pkt ? pkt->cursor : 0,
                              .now = w->env.now,
                              .seed = w->env.seed,
                              .draws = w->env.draws,
                              .staged = pkt ? pkt->staged_len : 0,
                              .params = size,
                              .bytes = frame};
    NF_TO = stage;
    NF_BITS = nf_stages[stage].replicas > 1 ? nf_steer(w, event, params, NULL, NULL) : 0;
    nf_piece(&head, sizeof(head));
    /* Whatever lies behind fills up to a multiple of 8. */
    if (pkt)
        nf_piece(pkt->data, nf_round(frame));
    nf_piece(params, nf_round(size));
    if (pkt) {
        nf_piece(pkt->staged, nf_round(head.staged));
        nf_piece(NF_CONTEXT_AT(pkt), NF_CONTEXT_SIZE);
    }
    nf_leave();
}

static u8 nf_room[NF_ROOM + NF_FRAME] __attribute__((aligned(8)));

#define NF_MORE_ROOM
/* Moves a frame to where it has room in front and behind. */
static __attribute__((noinline, unused)) u8 *nf_more_room(struct nf_packet *pkt, u8 *data, u8 **end,
                                                          u32 n)
{
    u32 size = (u32)(*end - data);
    if (n + size > sizeof(nf_room))
        return NULL;
    u32 most = sizeof(nf_room) - size, front = n + NF_ROOM < most ? n + NF_ROOM : most;
    memmove(nf_room + front, data, size);
    pkt->head = nf_room;
    pkt->tail = nf_room + sizeof(nf_room);
    *end = nf_room + front + size;
    return nf_room + front - n;
}

#endif
