// SPDX-License-Identifier: Apache-2.0 OR MIT
// Structures of the kernel as a program remembers them: some members, in another order, of another
// size. Loaders put the kernel's places into the instructions.
#include <linux/types.h>

#include <bpf/bpf_helpers.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#define OF_KERNEL __attribute__((preserve_access_index))

struct xdp_md {
    __u64 data_end;
    __u64 data;
    __u32 in_no_kernel;
} OF_KERNEL;

struct ethhdr___kind {
    __be16 h_proto;
    __u8 h_source[6];
} OF_KERNEL;

struct iphdr___few {
    __u8 protocol;
    __u8 ttl;
    __be32 daddr;
} OF_KERNEL;

enum { DROP = 1, PASS, TX };

SEC("xdp/places") int places(struct xdp_md *ctx)
{
    void *end = (void *)(long)ctx->data_end;
    struct ethhdr___kind *eth = (void *)(long)ctx->data;
    struct iphdr___few *ip = (void *)(long)ctx->data + 14;
    if ((void *)ip + 20 > end || eth->h_proto != bpf_htons(0x0800))
        return PASS;
    if (bpf_core_field_exists(ctx->in_no_kernel) || bpf_core_field_size(ip->daddr) != 4)
        return DROP;
    if (ip->protocol != 17)
        return DROP;
    ip->ttl = 7;
    eth->h_source[1] = bpf_ntohl(ip->daddr);
    eth->h_source[2] = bpf_core_field_offset(ip->daddr);
    return TX;
}

char _license[] SEC("license") = "Dual MIT/GPL";
