/* SPDX-License-Identifier: 0BSD
 *
 * nf_port.h (riscv, panic) - a worker on a core behind a scheduler. Messages come and go through
 * windows at the end of the network, by words. Everything a message carries is in the message:
 * cores share nothing.
 */
#ifndef NF_PORT_H
#define NF_PORT_H

/* In front of a frame, for headers, and the longest frame. */
#define NF_ROOM 256
#define NF_FRAME 2048
#define NF_CORE_BYTES 0

#define NF_RECEIVE (*(volatile u32 *)0x20000000)
#define NF_RELEASE (*(volatile u32 *)0x20000008)
#define NF_TO (*(volatile u32 *)0x20000010)
#define NF_BITS (*(volatile u32 *)0x20000014)
#define NF_SEND (*(volatile u32 *)0x20000018)
#define NF_RECEIVED ((u8 *)0x20010000)
#define NF_SENT ((u8 *)0x20020000)
#define NF_OUTSIDE 0x80000000u

#ifndef NF_CONTEXT_BYTES
#define NF_CONTEXT_AT(pkt) NULL
#define NF_CONTEXT_SIZE 0u
#else
#define NF_CONTEXT_AT(pkt) ((pkt)->context)
#define NF_CONTEXT_SIZE ((u32)NF_CONTEXT_BYTES)
#endif

/* In front of every message; parameters, emitted bytes, what stages leave for later ones, and the
 * frame follow, each at a multiple of 8. Outputs have only bytes. */
struct nf_message {
    /* Of the input event. */
    u32 number;
    /* Of an output: what it is, and which of its event's. */
    u32 kind;
    u32 event;
    u32 port;
    u64 now;
    u64 seed;
    u64 draws;
    u64 argument;
    u32 cursor;
    u32 staged;
    u32 params;
    u32 bytes;
};

/* Four words at a time: every one comes and goes through the core. */
static inline __attribute__((always_inline)) void nf_words(void *to, const void *from, u32 bytes)
{
    u32 *t = to;
    const u32 *f = from;
    for (; bytes >= 16; bytes -= 16, t += 4, f += 4) {
        u32 a = f[0], b = f[1], c = f[2], d = f[3];
        t[0] = a;
        t[1] = b;
        t[2] = c;
        t[3] = d;
    }
    for (; bytes >= 4; bytes -= 4)
        *t++ = *f++;
    u8 *last = (u8 *)t;
    const u8 *rest = (const u8 *)f;
    while (bytes--)
        *last++ = *rest++;
}

static __attribute__((noinline)) void nf_copy(void *to, const void *from, u32 bytes)
{
    nf_words(to, from, bytes);
}

NF_INLINE u32 nf_round(u32 bytes) { return (bytes + 7) & ~7u; }

/* Nothing is shared. */
NF_INLINE bool nf_lock_try(u32 number)
{
    (void)number;
    return true;
}
NF_INLINE void nf_lock_free(u32 number) { (void)number; }
NF_INLINE void nf_idle(void) {}

static __attribute__((noinline)) void nf_tell(struct nf_worker *w, u32 kind, u64 argument,
                                              const void *bytes, u32 size)
{
    struct nf_message head = {.number = w->event,
                              .kind = kind,
                              .event = w->outputs++,
                              .argument = argument,
                              .bytes = size};
    nf_copy(NF_SENT, &head, sizeof(head));
    nf_copy(NF_SENT + sizeof(head), bytes, size);
    NF_TO = NF_OUTSIDE | kind;
    NF_SEND = (u32)sizeof(head) + size;
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
                              .now = w->env.now,
                              .seed = w->env.seed,
                              .draws = w->env.draws,
                              .cursor = pkt ? pkt->cursor : 0,
                              .staged = pkt ? pkt->staged_len : 0,
                              .params = size,
                              .bytes = frame};
    u8 *at = NF_SENT;
    nf_copy(at, &head, sizeof(head));
    at += sizeof(head);
    nf_copy(at, params, size);
    at += nf_round(size);
    if (pkt) {
        nf_copy(at, pkt->staged, head.staged);
        at += nf_round(head.staged);
        nf_copy(at, NF_CONTEXT_AT(pkt), NF_CONTEXT_SIZE);
        at += nf_round(NF_CONTEXT_SIZE);
        nf_copy(at, pkt->data, frame);
        at += frame;
    }
    NF_TO = stage;
    NF_BITS = nf_stages[stage].replicas > 1 ? nf_steer(w, event, params, NULL, NULL) : 0;
    NF_SEND = (u32)(at - NF_SENT);
}

#endif
