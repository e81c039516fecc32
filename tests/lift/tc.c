// SPDX-License-Identifier: Apache-2.0 OR MIT
// Programs for tc: socket buffers, their members and helpers.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 128);
    __type(key, __u32);
    __type(value, __u64);
} seen SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 8);
    __type(key, __u32);
    __type(value, __u64);
} counts SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, 2);
    __type(key, __u32);
    __type(value, __u32);
} steps SEC(".maps");

static void count(__u32 key, __u64 by)
{
    __u64 *counter = bpf_map_lookup_elem(&counts, &key);
    if (counter)
        *counter += by;
}

/* Another source address, with checksums of every kind. */
SEC("tc/ingress") int masquerade(struct __sk_buff *skb)
{
    struct iphdr ip;
    __u32 to = bpf_htonl(0x0a000909);
    if (skb->protocol != bpf_htons(ETH_P_IP))
        return TC_ACT_OK;
    if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) < 0)
        return TC_ACT_SHOT;
    __u64 one = 1, *known = bpf_map_lookup_elem(&seen, &ip.saddr);
    if (known)
        __sync_fetch_and_add(known, 1);
    else
        bpf_map_update_elem(&seen, &ip.saddr, &one, BPF_ANY);
    __u32 at = ETH_HLEN + ip.ihl * 4;
    if (ip.protocol == IPPROTO_TCP) {
        at += offsetof(struct tcphdr, check);
        if (bpf_l4_csum_replace(skb, at, ip.saddr, to, BPF_F_PSEUDO_HDR | 4) < 0)
            return TC_ACT_SHOT;
    } else if (ip.protocol == IPPROTO_UDP) {
        at += offsetof(struct udphdr, check);
        __u64 flags = BPF_F_PSEUDO_HDR | BPF_F_MARK_MANGLED_0 | 4;
        bpf_l4_csum_replace(skb, at, ip.saddr, to, flags);
        bpf_l4_csum_replace(skb, at, bpf_htons(1), bpf_htons(ip.tos),
                            BPF_F_MARK_ENFORCE | 0x20 | 2);
    }
    bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check), ip.saddr, to, 4);
    bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct iphdr, saddr), &to, 4, 0);
    return skb->len & 1 ? bpf_redirect(skb->ifindex, 0) : TC_ACT_PIPE;
}

/* Packet bytes by pointers, beside helpers. */
SEC("classifier") int mark(struct __sk_buff *skb)
{
    if (bpf_skb_pull_data(skb, 54) < 0)
        count(0, 1);
    void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
    struct ethhdr *eth = data;
    struct iphdr *ip = data + sizeof(*eth);
    if (data + 54 > end)
        return skb->vlan_present ? TC_ACT_STOLEN : TC_ACT_SHOT;
    if (eth->h_proto != bpf_htons(ETH_P_IP)) {
        eth->h_dest[0] ^= 2;
        count(1, skb->wire_len);
        return skb->protocol == bpf_htons(ETH_P_ARP) ? TC_ACT_STOLEN : TC_ACT_UNSPEC;
    }
    __u16 old = ip->tos, new = 0x28;
    ip->tos = new;
    bpf_l3_csum_replace(skb, 24, bpf_htons(old), bpf_htons(new), 2);
    __u32 from = 0x01020304, to = old;
    __s64 by = bpf_csum_diff(&from, 4, &to, 4, 0);
    bpf_l4_csum_replace(skb, 50, 0, by, BPF_F_PSEUDO_HDR);
    bpf_l3_csum_replace(skb, 24, 0, by, 0);
    return 6;
}

/* The control block goes along with a tail call, as other members do. */
SEC("tc") int first(struct __sk_buff *skb)
{
    __u8 bytes[6] = {};
    skb->cb[0] = skb->len;
    skb->cb[4] = skb->ingress_ifindex;
    skb->mark = 7;
    skb->priority = skb->mark * 3;
    skb->tc_index = skb->cb[0] & 0xff;
    bpf_skb_load_bytes_relative(skb, 12, bytes, 6, BPF_HDR_START_NET);
    if (bytes[0] == 10)
        skb->cb[1] = bytes[3];
    if (skb->cb[1] & 1)
        skb->cb[2] = 1;
    bpf_tail_call(skb, &steps, 1);
    return TC_ACT_SHOT;
}

SEC("tc") int second(struct __sk_buff *skb)
{
    count(2, skb->cb[0]);
    count(3, skb->cb[1] + skb->cb[2]);
    count(4, skb->mark + skb->priority + skb->tc_index + skb->cb[4] + skb->cb[3]);
    __u8 low = *((volatile __u8 *)&skb->len);
    count(5, low);
    if (skb->cb[1] == 3)
        bpf_clone_redirect(skb, skb->ifindex, 0);
    return skb->cb[2] ? TC_ACT_TRAP : TC_ACT_RECLASSIFY;
}

/* Bytes at a place that the packet says. */
SEC("tc") int options(struct __sk_buff *skb)
{
    __u8 ihl;
    __u16 port;
    if (bpf_skb_load_bytes(skb, ETH_HLEN, &ihl, 1))
        return TC_ACT_SHOT;
    __u32 at = ETH_HLEN + (ihl & 15) * 4;
    if (bpf_skb_load_bytes(skb, at + 2, &port, 2))
        return port ? TC_ACT_STOLEN : TC_ACT_TRAP;
    port = bpf_htons(bpf_ntohs(port) + 1);
    if (bpf_skb_store_bytes(skb, at + 2, &port, 2, BPF_F_RECOMPUTE_CSUM))
        return TC_ACT_SHOT;
    return bpf_csum_update(skb, 5) < 0 ? TC_ACT_OK : TC_ACT_SHOT;
}

/* Into a tunnel of IPv4 in IPv4, and out of one. */
SEC("tc") int tunnel_in(struct __sk_buff *skb)
{
    struct iphdr outer = {.version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_IPIP};
    if (skb->protocol == bpf_htons(ETH_P_ARP))
        return TC_ACT_OK;
    outer.tot_len = bpf_htons(skb->len - ETH_HLEN + sizeof(outer));
    __u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L3_IPV4;
    if (bpf_skb_adjust_room(skb, sizeof(outer), BPF_ADJ_ROOM_MAC, flags))
        return TC_ACT_SHOT;
    if (bpf_skb_store_bytes(skb, ETH_HLEN, &outer, sizeof(outer), BPF_F_INVALIDATE_HASH))
        return TC_ACT_STOLEN;
    return skb->protocol == bpf_htons(ETH_P_IP) ? TC_ACT_OK : TC_ACT_TRAP;
}

SEC("tc") int tunnel_out(struct __sk_buff *skb)
{
    __u8 protocol;
    if (bpf_skb_load_bytes(skb, 23, &protocol, 1) || protocol == IPPROTO_TCP)
        return TC_ACT_OK;
    if (bpf_skb_adjust_room(skb, -20, BPF_ADJ_ROOM_MAC, 0))
        return TC_ACT_SHOT;
    if (bpf_skb_load_bytes(skb, 14, &protocol, 1))
        return TC_ACT_STOLEN;
    return protocol == 0x45 ? TC_ACT_PIPE : TC_ACT_RECLASSIFY;
}

/* The packet instructions of classic BPF. */
unsigned long long load_byte(void *skb, unsigned long long off) asm("llvm.bpf.load.byte");
unsigned long long load_half(void *skb, unsigned long long off) asm("llvm.bpf.load.half");
unsigned long long load_word(void *skb, unsigned long long off) asm("llvm.bpf.load.word");

SEC("tc") int classic(struct __sk_buff *skb)
{
    count(6, 1);
    if (load_half(skb, 12) != ETH_P_IP)
        return TC_ACT_SHOT;
    __u32 at = ETH_HLEN + (load_byte(skb, ETH_HLEN) & 15) * 4;
    count(7, load_word(skb, at));
    return load_word(skb, 26) & 1 ? TC_ACT_STOLEN : TC_ACT_RECLASSIFY;
}

/* Asks what has no answer here. */
SEC("tc/refused") int whom(struct __sk_buff *skb)
{
    return skb->pkt_type ? TC_ACT_OK : TC_ACT_SHOT;
}
SEC("tc/refused") int hash(struct __sk_buff *skb) { return bpf_get_hash_recalc(skb) & 1; }
SEC("tc/refused") int ethernet(struct __sk_buff *skb)
{
    __u64 flags = BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 | BPF_F_ADJ_ROOM_ENCAP_L2(14);
    return bpf_skb_adjust_room(skb, 50, BPF_ADJ_ROOM_MAC, flags) ? TC_ACT_SHOT : TC_ACT_OK;
}
SEC("tc/refused") int copied(struct __sk_buff *skb)
{
    if (bpf_skb_adjust_room(skb, 20, BPF_ADJ_ROOM_MAC, 0))
        return TC_ACT_SHOT;
    return bpf_clone_redirect(skb, skb->ifindex, 0) ? TC_ACT_SHOT : TC_ACT_OK;
}
SEC("cgroup_skb/ingress") int other(struct __sk_buff *skb) { return 1; }

/* Cut to what a byte says, or grown by zeros; too short and too long is refused. */
SEC("tc/ingress") int resize(struct __sk_buff *skb)
{
    __u8 byte, last;
    if (bpf_skb_load_bytes(skb, 29, &byte, 1) < 0)
        return TC_ACT_SHOT;
    __u32 length = byte & 1 ? skb->len + (byte & 31) : byte & 127;
    if (bpf_skb_change_tail(skb, length, 0) < 0)
        return TC_ACT_SHOT;
    if (bpf_skb_load_bytes(skb, length - 1, &last, 1) < 0)
        count(1, 1);
    else
        count(2, last);
    if (bpf_skb_change_tail(skb, 20000, 0) < 0)
        count(3, skb->len);
    return TC_ACT_OK;
}

char _license[] SEC("license") = "GPL";
