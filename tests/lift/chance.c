// SPDX-License-Identifier: Apache-2.0 OR MIT
// A random number decides about long packets, one time in eight.
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

SEC("xdp") int chance(struct xdp_md *ctx)
{
    if (ctx->data_end - ctx->data < 64)
        return XDP_DROP;
    return bpf_get_prandom_u32() & 7 ? XDP_PASS : XDP_TX;
}

char _license[] SEC("license") = "GPL";
