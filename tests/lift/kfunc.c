// SPDX-License-Identifier: Apache-2.0 OR MIT
// Has no meaning off the kernel: it calls a function of it.
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

extern int bpf_xdp_metadata_rx_timestamp(const struct xdp_md *ctx, __u64 *time) __ksym;

SEC("xdp") int kfunc(struct xdp_md *ctx)
{
    __u64 time = 0;
    return bpf_xdp_metadata_rx_timestamp(ctx, &time) ? XDP_DROP : XDP_PASS;
}

char _license[] SEC("license") = "GPL";
