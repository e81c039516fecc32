/* Ways that share code but cannot be one: some packets get a tag in front, others lose theirs. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1024);
    __type(key, __u32);
    __type(value, __u64);
} seen SEC(".maps");

static __always_inline int swap(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    __u16 *part = data;
    if (data + 14 > end)
        return XDP_DROP;
    for (int i = 0; i < 3; i++) {
        __u16 old = part[i];
        part[i] = part[i + 3];
        part[i + 3] = old;
    }
    return XDP_TX;
}

SEC("xdp")
int apart(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    if (data + 18 > end)
        return XDP_PASS;
    __u16 type = *(__u16 *)(data + 12);
    __u32 key = type;
    if (type == bpf_htons(ETH_P_8021Q)) {
        key += *(__u8 *)(data + 15);
        __u64 low = *(__u64 *)data;
        __u32 high = *(__u32 *)(data + 8);
        if (bpf_xdp_adjust_head(ctx, 4))
            return XDP_ABORTED;
        data = (void *)(long)ctx->data, end = (void *)(long)ctx->data_end;
        if (data + 14 > end)
            return XDP_ABORTED;
        *(__u64 *)data = low;
        *(__u32 *)(data + 8) = high;
    } else if (type == bpf_htons(ETH_P_IP)) {
        key += *(__u8 *)(data + 14);
        __u64 low = *(__u64 *)data;
        __u32 high = *(__u32 *)(data + 8);
        if (bpf_xdp_adjust_head(ctx, -4))
            return XDP_ABORTED;
        data = (void *)(long)ctx->data, end = (void *)(long)ctx->data_end;
        if (data + 18 > end)
            return XDP_ABORTED;
        *(__u64 *)data = low;
        *(__u32 *)(data + 8) = high;
        *(__u32 *)(data + 12) = bpf_htonl(0x81000007);
    }
    /* A byte of the destination or of the source, wherever the frame begins. */
    data = (void *)(long)ctx->data, end = (void *)(long)ctx->data_end;
    __u64 off = key & 1 ? 5 : 11;
    asm volatile("" : "+r"(off));
    if (off > 11 || data + 12 > end)
        return XDP_DROP;
    key += *(__u8 *)(data + off) << 16;
    __u64 one = 1, *count = bpf_map_lookup_elem(&seen, &key);
    if (count)
        *count += 1;
    else
        bpf_map_update_elem(&seen, &key, &one, BPF_ANY);
    return key & 1 ? XDP_PASS : swap(ctx);
}

char _license[] SEC("license") = "GPL";
