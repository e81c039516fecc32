// SPDX-License-Identifier: Apache-2.0 OR MIT
// Loops of many trips that are left early, written out or not.
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

/* The checksum of all that is there. */
SEC("xdp") int loop(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    __u32 sum = 0;
    for (int i = 0; i < 600; i++) {
        __u16 *p = data + 14 + 2 * i;
        if ((void *)(p + 1) > end)
            break;
        sum += *p;
    }
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    if (data + 14 > end)
        return XDP_DROP;
    *(__u16 *)data = sum;
    return sum & 1 ? XDP_TX : XDP_PASS;
}

/* The first byte of a kind. */
SEC("xdp") int find(struct xdp_md *ctx)
{
    __u8 *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    __u32 at = 0;
#pragma clang loop unroll(full)
    for (int i = 14; i < 300; i++) {
        if (data + i + 1 > end)
            break;
        if (data[i] == 0x20) {
            at = i;
            break;
        }
    }
    return at & 1 ? XDP_TX : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
