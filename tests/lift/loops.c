/* Loops that branch, that are left in several places, and whose ways leave different things in one
 * register: extension headers of IPv6 behind VLAN tags. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define DEEPEST 6

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 256);
    __type(key, __u32);
    __type(value, __u64);
} protocols SEC(".maps");

struct extension {
    __u8 next;
    __u8 length;
};

static __always_inline int behind_extensions(void **at, void *end, __u8 next)
{
    for (int i = 0; i < DEEPEST; i++) {
        struct extension *header = *at;
        if ((void *)(header + 1) > end)
            return -1;
        switch (next) {
        case IPPROTO_HOPOPTS:
        case IPPROTO_ROUTING:
        case IPPROTO_DSTOPTS:
            *at = (void *)header + (header->length + 1) * 8;
            next = header->next;
            break;
        case IPPROTO_AH:
            *at = (void *)header + (header->length + 2) * 4;
            next = header->next;
            break;
        case IPPROTO_FRAGMENT:
            *at = (void *)header + 8;
            next = header->next;
            break;
        default:
            return next;
        }
    }
    return -1;
}

SEC("xdp")
int loops(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct ethhdr *eth = data;
    if ((void *)(eth + 1) > end)
        return XDP_ABORTED;
    void *at = eth + 1;
    __u16 type = eth->h_proto;
#pragma clang loop unroll(disable)
    for (int i = 0; i < 4 && (type == bpf_htons(ETH_P_8021Q) || type == bpf_htons(ETH_P_8021AD));
         i++) {
        if (at + 4 > end)
            return XDP_DROP;
        type = *(__u16 *)(at + 2);
        at += 4;
    }
    struct ipv6hdr *ip = at;
    if (type != bpf_htons(ETH_P_IPV6) || (void *)(ip + 1) > end)
        return XDP_PASS;
    at = ip + 1;
    int protocol = behind_extensions(&at, end, ip->nexthdr);
    if (protocol < 0)
        return XDP_DROP;
    __u32 key = protocol & 0xff;
    __u64 *count = bpf_map_lookup_elem(&protocols, &key);
    if (count)
        *count += 1;
    if (protocol == IPPROTO_UDP && at + 8 <= end) {
        *(__u16 *)(at + 6) = 0;
        return XDP_TX;
    }
    return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
