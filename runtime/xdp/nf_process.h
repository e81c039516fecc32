/* SPDX-License-Identifier: 0BSD
 *
 * nf_process.h (xdp) - what joins stages in the kernel to those in a process: a part of nf_rt.h for programs that have
 * some there.
 */
#ifndef NF_PROCESS_XDP_H
#define NF_PROCESS_XDP_H

/* Queues of one interface that may have sockets. */
#define NF_QUEUES 64

/* The sockets of the process, by port, queue of the interface and thread. */
struct {
    __uint(type, BPF_MAP_TYPE_XSKMAP);
    __uint(max_entries, 16 * NF_QUEUES * NF_THREADS);
    __type(key, u32);
    __type(value, u32);
} nf_process SEC(".maps");

/* Events without a packet. Write-back caches rely on the room (python/nicforge/flow/cache.py): one entry for each
 * bucket. Several threads have a ring each, which the loader makes. */
#if NF_THREADS == 1
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 22);
} nf_up SEC(".maps");
#define NF_RING(thread) ((void)(thread), (void *)&nf_up)
#else
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __uint(max_entries, NF_THREADS);
    __type(key, u32);
    __array(
        values, struct {
            __uint(type, BPF_MAP_TYPE_RINGBUF);
            __uint(max_entries, 1 << 22);
        });
} nf_up SEC(".maps");
#define NF_RING(thread) bpf_map_lookup_elem(&nf_up, &(thread))
#endif

/* Events made for each thread so far, and those of them that never left; whether it sleeps; events without a packet
 * that came back. */
extern u64 nf_order[];
extern u64 nf_unsent[];
extern u64 nf_asleep[];
extern u64 nf_values;

/* One of the counters above. The check is for the verifier, which does not know what clang does about the number. */
NF_INLINE u64 *nf_of_thread(u64 *counters, u64 thread)
{
#if NF_THREADS == 1
    thread = 0;
#else
    NF_PIN(thread);
#endif
    return counters + (thread < NF_THREADS ? thread : 0);
}

NF_INLINE int nf_took_values(int verdict)
{
    __sync_fetch_and_add(&nf_values, 1);
    return verdict;
}

/* Room in a thread's ring for an event of size bytes, a constant, behind its head; none if the ring is full, counted.
 */
NF_INLINE void *nf_raised(u32 thread, u32 id, u32 size)
{
    u32 order = __sync_fetch_and_add(nf_of_thread(nf_order, thread), 1);
    void *ring = NF_RING(thread);
    u32 *record = ring ? bpf_ringbuf_reserve(ring, size + 8, 0) : 0;
    if (!record) {
        __sync_fetch_and_add(nf_of_thread(nf_unsent, thread), 1);
        return 0;
    }
    record[0] = id;
    record[1] = order;
    return record + 2;
}

/* The event is ready. Waking a thread costs an interrupt, far more than the event, so only one that sleeps is woken, by
 * the first that sees it: the thread says that it sleeps, then looks into its ring once more; submitting is a full
 * barrier. */
NF_INLINE void nf_raise(void *made, u32 thread)
{
    bpf_ringbuf_submit((u8 *)made - 8, BPF_RB_NO_WAKEUP);
    volatile u64 *asleep = nf_of_thread(nf_asleep, thread);
    if (!*asleep || !__sync_lock_test_and_set(asleep, 0))
        return;
    void *ring = NF_RING(thread);
    void *nothing = ring ? bpf_ringbuf_reserve(ring, 8, 0) : 0;
    if (nothing)
        bpf_ringbuf_discard(nothing, BPF_RB_FORCE_WAKEUP);
}

/* Gives a packet to a thread of the process. size is a constant. Without a process the packet ends here, counted. */
NF_INLINE int nf_hand_to_process(struct xdp_md *ctx, u32 stage, u32 port, u32 thread, u32 id, const void *event,
                                 u32 size)
{
    if (bpf_xdp_adjust_meta(ctx, -(int)(size + 8)))
        return XDP_ABORTED;
    u8 *meta = (u8 *)(long)ctx->data_meta;
    if (meta + size + 8 > (u8 *)(long)ctx->data)
        return XDP_ABORTED;
    __builtin_memcpy((nf_wide_bytes *)meta, (const nf_wide_bytes *)event, size);
    u32 *behind = (u32 *)(meta + size);
    behind[0] = __sync_fetch_and_add(nf_of_thread(nf_order, thread), 1);
    behind[1] = id;
    u32 socket = (port * NF_QUEUES + (ctx->rx_queue_index & (NF_QUEUES - 1))) * NF_THREADS + thread;
    int verdict = bpf_redirect_map(&nf_process, socket, XDP_DROP);
    struct nf_stage_count *count = bpf_map_lookup_elem(&nf_stage_counts, &stage);
    if (verdict != XDP_REDIRECT)
        __sync_fetch_and_add(nf_of_thread(nf_unsent, thread), 1);
    else if (count)
        count->handed++;
    return verdict;
}

/* What the process gave back: its head comes off, and the values become metadata. */
NF_INLINE bool nf_returned(struct xdp_md *ctx, u32 *stage, u32 *cpu)
{
    u32 *head = (u32 *)(long)ctx->data;
    if ((u8 *)(head + 3) > (u8 *)(long)ctx->data_end)
        return false;
    *stage = head[0];
    *cpu = head[1];
    u64 size = head[2] & 0xfc;
    NF_PIN(size);
    return !bpf_xdp_adjust_head(ctx, (int)size + 12) && !bpf_xdp_adjust_meta(ctx, -(int)size);
}

#endif
