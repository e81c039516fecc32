/* SPDX-License-Identifier: 0BSD
 *
 * nf_process.h (xdp) - what joins stages in the kernel to those in a process: a part of nf_rt.h for
 * programs that have some there.
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

/* Events without a packet. Write-back caches rely on the room (python/nicforge/flow/cache.py): one
 * entry for each bucket. Several threads have a ring each, which the loader makes. */
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

/* Events made for each thread so far, and those of them that never left; whether it sleeps; events
 * without a packet that came back. */
extern u64 nf_order[];
extern u64 nf_unsent[];
extern u64 nf_asleep[];
extern u64 nf_values;

/* One of the counters above. The check is for the verifier, which does not know what clang does
 * about the number. */
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

/* Room in a thread's ring for an event of size bytes, a constant, behind its head; none if the ring
 * is full, counted.
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

/* Behind an event put into a ring. Waking a thread costs an interrupt, far more than the event, so
 * only one that sleeps is woken, by the first that sees it: the thread says that it sleeps, then
 * looks into its ring once more; submitting is a full barrier. */
NF_INLINE void nf_wake(u32 thread)
{
    volatile u64 *asleep = nf_of_thread(nf_asleep, thread);
    if (!*asleep || !__sync_lock_test_and_set(asleep, 0))
        return;
    void *ring = NF_RING(thread);
    void *nothing = ring ? bpf_ringbuf_reserve(ring, 8, 0) : 0;
    if (nothing)
        bpf_ringbuf_discard(nothing, BPF_RB_FORCE_WAKEUP);
}

NF_INLINE void nf_raise(void *made, u32 thread)
{
    bpf_ringbuf_submit((u8 *)made - 8, BPF_RB_NO_WAKEUP);
    nf_wake(thread);
}

/* Words of a byte string, of `words` at most, up to the last that is not zero. `words` is a
 * constant, and so is what the verifier sees of the answer on each of its walks. */
NF_INLINE u32 nf_words_used(const void *string, u32 words)
{
    const u64 *word = string;
    u64 used = 0;
#pragma clang loop unroll(full)
    for (u32 at = words; at > 0; at--) {
        if (word[at - 1]) {
            used = at;
            break;
        }
    }
    NF_PIN(used);
    return used;
}

/* Copies the words of two byte strings that are used, of `first` and `second` at most, one behind
 * the other. */
NF_INLINE void nf_put_words(u64 *to, const u64 *from, u64 first, u64 second, u64 used)
{
    u64 one = used & 0xff, other = used >> 8 & 0xff;
#pragma clang loop unroll(full)
    for (u64 at = 0; at < first; at++) {
        if (at < one)
            to[at] = from[at];
    }
    to += one;
#pragma clang loop unroll(full)
    for (u64 at = 0; at < second; at++) {
        if (at < other)
            to[at] = from[first + at];
    }
}

#ifdef NF_RAISED_ROOM
/* An event for the ring before its byte strings are cut, behind room for its head. */
struct nf_raised_bytes {
    u64 words[64];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct nf_raised_bytes);
} nf_raised_rooms SEC(".maps");

NF_INLINE void *nf_raised_room(void)
{
    u32 zero = 0;
    u64 *room = bpf_map_lookup_elem(&nf_raised_rooms, &zero);
    return room ? room + 1 : 0;
}

/* Puts an event that was made there into a thread's ring, `used` words of its byte strings;
 * counted, if that is full.
 */
NF_INLINE void nf_raise_strings(u32 thread, u32 id, void *made, u32 size, u32 first, u32 second,
                                u32 used)
{
    u32 *record = (u32 *)made - 2;
    u32 fixed = size - 8 * (first + second);
    record[0] = id;
    record[1] = __sync_fetch_and_add(nf_of_thread(nf_order, thread), 1);
    u64 *strings = (u64 *)((u8 *)made + fixed);
    nf_put_words(strings, strings, first, second, used);
    u64 length = 8 + fixed + 8 * ((used & 0xff) + (used >> 8 & 0xff));
    void *ring = NF_RING(thread);
    if (ring && bpf_ringbuf_output(ring, record, length, BPF_RB_NO_WAKEUP) == 0)
        nf_wake(thread);
    else
        __sync_fetch_and_add(nf_of_thread(nf_unsent, thread), 1);
}
#endif

/* To the socket of a thread of the process, counted. Without a process the packet ends here. */
NF_INLINE int nf_to_socket(struct xdp_md *ctx, u32 stage, u32 port, u32 thread)
{
    u32 socket = (port * NF_QUEUES + (ctx->rx_queue_index & (NF_QUEUES - 1))) * NF_THREADS + thread;
    int verdict = bpf_redirect_map(&nf_process, socket, XDP_DROP);
    struct nf_stage_count *count = bpf_map_lookup_elem(&nf_stage_counts, &stage);
    if (verdict != XDP_REDIRECT)
        __sync_fetch_and_add(nf_of_thread(nf_unsent, thread), 1);
    else if (count)
        count->handed++;
    return verdict;
}

/* Gives a packet to a thread of the process. size is a constant. */
NF_INLINE int nf_hand_to_process(struct xdp_md *ctx, u32 stage, u32 port, u32 thread, u32 id,
                                 const void *event, u32 size)
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
    return nf_to_socket(ctx, stage, port, thread);
}

/* The same with byte strings at the event's end, `first` and `second` words of room of which `used`
 * go along. How many these are stands in the upper half of the last word: a socket's reader finds
 * its way from there. */
NF_INLINE int nf_hand_strings_to_process(struct xdp_md *ctx, u32 stage, u32 port, u32 thread,
                                         u32 id, const void *event, u32 size, u32 first, u32 second,
                                         u32 used)
{
    u32 fixed = size - 8 * (first + second);
    u64 words = (used & 0xff) + (used >> 8 & 0xff);
    NF_PIN(words);
    if (bpf_xdp_adjust_meta(ctx, -(int)(fixed + 8 * words + 8)))
        return XDP_ABORTED;
    u8 *meta = (u8 *)(long)ctx->data_meta;
    u8 *behind = meta + fixed + 8 * words;
    if (behind + 8 > (u8 *)(long)ctx->data)
        return XDP_ABORTED;
    __builtin_memcpy((nf_wide_bytes *)meta, (const nf_wide_bytes *)event, fixed);
    nf_put_words((u64 *)(meta + fixed), (const u64 *)((const u8 *)event + fixed), first, second,
                 used);
    ((u32 *)behind)[0] = __sync_fetch_and_add(nf_of_thread(nf_order, thread), 1);
    ((u32 *)behind)[1] = id | words << 16;
    return nf_to_socket(ctx, stage, port, thread);
}

/* Takes an event's values, and of its byte strings what crossed, out of the packet's metadata and
 * that off the packet.
 */
#define NF_TAKE_STRINGS(ctx, event, first, second)                                                 \
    do {                                                                                           \
        u64 nf_fixed = sizeof(event) - 8 * ((first) + (second));                                   \
        u64 nf_at = __builtin_offsetof(typeof(event), nf_words);                                   \
        u64 nf_meta_bytes = nf_take_strings((ctx), &(event), nf_fixed, (first), (second), nf_at);  \
        if (!nf_meta_bytes || bpf_xdp_adjust_meta((ctx), (int)nf_meta_bytes))                      \
            return XDP_ABORTED;                                                                    \
    } while (0)

/* Bytes that it took; 0 if there are too few. `at` is where the event has the numbers of words. */
NF_INLINE u64 nf_take_strings(struct xdp_md *ctx, void *event, u64 fixed, u32 first, u32 second,
                              u64 at)
{
    u8 *meta = (u8 *)(long)ctx->data_meta, *data = (u8 *)(long)ctx->data;
    if (meta + fixed > data)
        return 0;
    __builtin_memset((u8 *)event + fixed, 0, 8 * (first + second));
    __builtin_memcpy(event, (nf_wide_bytes *)meta, fixed);
    u32 words = *(u32 *)((u8 *)event + at);
    u64 one = words & 0xff, other = words >> 8 & 0xff;
    NF_PIN(one);
    NF_PIN(other);
    if (one > first || other > second)
        return 0;
    u64 *to = (u64 *)((u8 *)event + fixed), *from = (u64 *)(meta + fixed);
#pragma clang loop unroll(full)
    for (u64 word = 0; word < first; word++) {
        if (word < one && (u8 *)(from + word + 1) <= data)
            to[word] = from[word];
    }
    from += one;
#pragma clang loop unroll(full)
    for (u64 word = 0; word < second; word++) {
        if (word < other && (u8 *)(from + word + 1) <= data)
            to[first + word] = from[word];
    }
    return fixed + 8 * (one + other);
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
