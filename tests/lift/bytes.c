// SPDX-License-Identifier: Apache-2.0 OR MIT
// Packet bytes at places that packets say, through helpers that may fail, and long messages.
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

SEC("xdp") int bytes(struct xdp_md *ctx)
{
    __u8 length, word[4] = {1, 2, 3, 4};
    if (bpf_xdp_load_bytes(ctx, 14, &length, 1))
        return XDP_DROP;
    __u32 at = (length & 15) * 8;
    long failed = bpf_xdp_load_bytes(ctx, at, word, sizeof(word));
    bpf_printk("%d: %d %d %d %d", at, word[0], word[1], word[2], word[3]);
    if (failed)
        return word[0] == 1 ? XDP_ABORTED : XDP_PASS;
    word[0] ^= word[3];
    if (bpf_xdp_store_bytes(ctx, at + 40, word, sizeof(word)) < 0)
        return XDP_TX;
    return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
