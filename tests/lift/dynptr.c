// SPDX-License-Identifier: Apache-2.0 OR MIT
// Dynamic pointers into packets: slices, parts that are copied, and pointers that are moved.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_helpers.h>

extern int bpf_dynptr_from_xdp(struct xdp_md *ctx, __u64 flags, struct bpf_dynptr *to) __ksym;
extern int bpf_dynptr_from_skb(struct __sk_buff *ctx, __u64 flags, struct bpf_dynptr *to) __ksym;
extern void *bpf_dynptr_slice(const struct bpf_dynptr *from, __u32 off, void *buffer,
                              __u32 size) __ksym;
extern void *bpf_dynptr_slice_rdwr(const struct bpf_dynptr *from, __u32 off, void *buffer,
                                   __u32 size) __ksym;
extern int bpf_dynptr_adjust(const struct bpf_dynptr *from, __u32 start, __u32 end) __ksym;
extern _Bool bpf_dynptr_is_null(const struct bpf_dynptr *from) __ksym;
extern _Bool bpf_dynptr_is_rdonly(const struct bpf_dynptr *from) __ksym;
extern __u32 bpf_dynptr_size(const struct bpf_dynptr *from) __ksym;
extern int bpf_dynptr_clone(const struct bpf_dynptr *from, struct bpf_dynptr *to) __ksym;

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 8);
    __type(key, __u32);
    __type(value, __u64);
} found SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 16);
} ring SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u8[40]);
} scratch SEC(".maps");

static void note(__u32 at, __u64 value)
{
    __u64 *slot = bpf_map_lookup_elem(&found, &at);
    if (slot)
        *slot = *slot * 31 + value;
}

/* What XDP and tc programs have in common. */
static __always_inline int work(const struct bpf_dynptr *all)
{
    struct bpf_dynptr part;
    __u8 buffer[20] = {}, bytes[7] = {1, 2, 3, 4, 5, 6, 7};
    note(0, bpf_dynptr_size(all) + bpf_dynptr_is_null(all) + bpf_dynptr_is_rdonly(all));
    __u8 *ethernet = bpf_dynptr_slice_rdwr(all, 0, buffer, 14);
    if (!ethernet)
        return 0;
    __u8 length = ethernet[0] % 64, first = ethernet[1];
    ethernet[3] = first + length;
    __u8 *ip = bpf_dynptr_slice(all, 14 + length, buffer, 20);
    note(1, ip ? ip[9] * 256 + ip[19] : 77777);
    /* Beyond the packet's end now and then. */
    note(2, bpf_dynptr_read(bytes, sizeof(bytes), all, first, 0));
    note(3, bytes[0] + bytes[6] * 256);
    note(4, bpf_dynptr_read(bytes, sizeof(bytes), all, 0, 1));
    bytes[2] ^= 0x55;
    note(5, bpf_dynptr_write(all, length + 20, bytes, 4 + first % 4, 0));
    bpf_dynptr_clone(all, &part);
    __u32 moved = bpf_dynptr_adjust(&part, 14, length + 30);
    note(6, moved);
    note(7, bpf_dynptr_size(&part));
    __u8 *last = bpf_dynptr_slice(&part, length, buffer, 8);
    if (!last)
        return 1;
    note(2, last[0] + last[7]);
    return last[1] & 1;
}

SEC("xdp") int dynptr_xdp(struct xdp_md *ctx)
{
    struct bpf_dynptr all;
    if (bpf_dynptr_from_xdp(ctx, 0, &all))
        return XDP_ABORTED;
    return work(&all) ? XDP_TX : XDP_PASS;
}

SEC("tc") int dynptr_tc(struct __sk_buff *ctx)
{
    struct bpf_dynptr all;
    if (bpf_dynptr_from_skb(ctx, 0, &all))
        return TC_ACT_OK;
    return work(&all) ? TC_ACT_SHOT : TC_ACT_OK;
}

/* A record of the ring by a dynamic pointer, and a map's value by one. */
SEC("xdp/record") int record(struct xdp_md *ctx)
{
    struct bpf_dynptr all, out, mem;
    __u8 buffer[8] = {}, eight[8] = {};
    __u32 zero = 0;
    __u8 *value = bpf_map_lookup_elem(&scratch, &zero);
    if (!value || bpf_dynptr_from_xdp(ctx, 0, &all) || bpf_dynptr_read(eight, 8, &all, 6, 0))
        return XDP_DROP;
    if (bpf_dynptr_from_mem(value, 40, 0, &mem))
        return XDP_ABORTED;
    note(0, bpf_dynptr_write(&mem, eight[0] % 64, eight, 8, 0));
    note(1, bpf_dynptr_adjust(&mem, 4, 30) + bpf_dynptr_size(&mem));
    __u8 *inside = bpf_dynptr_data(&mem, 10, 4);
    if (inside)
        inside[1] += eight[1];
    if (bpf_ringbuf_reserve_dynptr(&ring, 24, 0, &out)) {
        bpf_ringbuf_discard_dynptr(&out, 0);
        return XDP_ABORTED;
    }
    bpf_dynptr_write(&out, 0, eight, 8, 0);
    bpf_dynptr_write(&out, 8, eight, 8, 0);
    note(2, bpf_dynptr_write(&out, 16 + eight[2] % 2, eight, 8, 0));
    __u8 *last = bpf_dynptr_data(&out, 16, 8);
    if (last) {
        __builtin_memset(last, 0, 8);
        last[7] = 9;
    }
    if (eight[3] & 1)
        bpf_ringbuf_submit_dynptr(&out, 0);
    else
        bpf_ringbuf_discard_dynptr(&out, 0);
    return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
