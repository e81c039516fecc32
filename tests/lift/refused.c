// SPDX-License-Identifier: Apache-2.0 OR MIT
// Has no meaning off the kernel: it asks for a socket.
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

SEC("xdp") int refused(struct xdp_md *ctx)
{
    struct bpf_sock_tuple tuple = {};
    struct bpf_sock *sock = bpf_sk_lookup_udp(ctx, &tuple, sizeof(tuple.ipv4), -1, 0);
    if (!sock)
        return XDP_DROP;
    bpf_sk_release(sock);
    return XDP_PASS;
}

/* Has to do with XDP, and is none. */
SEC("tp_btf/xdp_exception") int traced(void *ctx) { return 0; }
