/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * arp: answers requests for the addresses of a table (RFC 826).
 */
#include "xdp.h"

struct arp {
    __be16 hardware, protocol;
    __u8 hardware_bytes, protocol_bytes;
    __be16 operation;
    __u8 from_mac[6], from[4], to_mac[6], to[4];
} __attribute__((packed));

struct mac {
    __u8 bytes[6];
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 256);
    __type(key, __u32);
    __type(value, struct mac);
} owned SEC(".maps");

SEC("xdp") int arp(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof(*eth));
    struct arp *arp = take(&p, sizeof(*arp));
    if (!eth || !arp || eth->h_proto != bpf_htons(ETH_P_ARP))
        return XDP_PASS;
    if (arp->protocol != bpf_htons(ETH_P_IP) || arp->operation != bpf_htons(1))
        return XDP_DROP;
    __u32 address;
    __builtin_memcpy(&address, arp->to, 4);
    struct mac *mac = bpf_map_lookup_elem(&owned, &address);
    if (!mac)
        return XDP_PASS;
    arp->operation = bpf_htons(2);
    __builtin_memcpy(arp->to_mac, arp->from_mac, 6);
    __builtin_memcpy(arp->to, arp->from, 4);
    __builtin_memcpy(arp->from_mac, mac->bytes, 6);
    __builtin_memcpy(arp->from, &address, 4);
    __builtin_memcpy(eth->h_dest, eth->h_source, 6);
    __builtin_memcpy(eth->h_source, mac->bytes, 6);
    return XDP_TX;
}
