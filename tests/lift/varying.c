// SPDX-License-Identifier: Apache-2.0 OR MIT
// Helpers over a number of bytes that only the packet says: read from it into the stack, a map and
// a message, written to it, summed, and of tc, where a read that fails clears its bytes.
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#define ROOM 48

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, __u8[ROOM]);
    __uint(max_entries, 1);
} last SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 20);
} copies SEC(".maps");

static __always_inline __u32 asked(struct xdp_md *ctx, __u32 at)
{
    __u8 *byte = (void *)(long)ctx->data + at;
    if ((void *)(byte + 1) > (void *)(long)ctx->data_end)
        return 1;
    return *byte;
}

SEC("xdp/stack")
int stack(struct xdp_md *ctx)
{
    __u8 bytes[ROOM] = {7, 7};
    __u32 length = asked(ctx, 20) & 31;
    if (length == 0 || bpf_xdp_load_bytes(ctx, 14, bytes, length))
        return XDP_DROP;
    __u32 sum = bpf_csum_diff(0, 0, (__be32 *)bytes, length & 28, 3);
    sum ^= bpf_csum_diff(0, 0, (__be32 *)bytes, length, 5);
    bytes[0] ^= sum;
    bytes[1] ^= sum >> 8;
    bytes[ROOM - 1] = length;
    return bpf_xdp_store_bytes(ctx, 0, bytes, 14) ? XDP_ABORTED : XDP_TX;
}

SEC("xdp/map")
int map(struct xdp_md *ctx)
{
    __u32 none = 0;
    __u8 *bytes = bpf_map_lookup_elem(&last, &none);
    __u32 length = asked(ctx, 16) & 63;
    if (!bytes || length < 3 || length > ROOM)
        return XDP_PASS;
    __u32 from = asked(ctx, 3) & 15;
    return bpf_xdp_load_bytes(ctx, from, bytes, length) ? XDP_DROP : XDP_TX;
}

SEC("xdp/message")
int message(struct xdp_md *ctx)
{
    __u32 length = (ctx->data_end - ctx->data) & 0xffff;
    if (length == 0 || length > ROOM)
        length = ROOM;
    __u8 *copy = bpf_ringbuf_reserve(&copies, ROOM, 0);
    if (!copy)
        return XDP_PASS;
    __builtin_memset(copy, 1, ROOM);
    bpf_xdp_load_bytes(ctx, 2, copy, length);
    bpf_ringbuf_submit(copy, 0);
    return XDP_PASS;
}

SEC("xdp/stores")
int stores(struct xdp_md *ctx)
{
    __u8 bytes[16] = {0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7,
                      0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf};
    __u32 length = (asked(ctx, 5) & 15) + 1;
    __u32 at = asked(ctx, 7) & 63;
    return bpf_xdp_store_bytes(ctx, at, bytes, length) ? XDP_DROP : XDP_TX;
}

SEC("tc/loads")
int loads(struct __sk_buff *skb)
{
    __u8 bytes[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    __u8 length = 0;
    bpf_skb_load_bytes(skb, 17, &length, 1);
    __u32 at = length & 63;
    long failed = bpf_skb_load_bytes(skb, at, bytes, (length & 15) + 1);
    bytes[0] ^= failed != 0;
    if (bpf_skb_store_bytes(skb, 0, bytes, 12, 0))
        return 2;
    return 0;
}

char _license[] SEC("license") = "GPL";
