/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * kv_cache by hand: GETs and SETs of memcached's binary protocol over UDP, answered in the frame
 * they came in. What stays as it came is not written again.
 */
#include "common.h"

#define MEMCACHED_PORT 11211
#define KEY_BYTES 32
#define VALUE_BYTES 64

#define GET 0x00
#define SET 0x01
#define OUT_OF_MEMORY 0x0082

struct request {
    struct ethhdr eth;
    struct iphdr ip;
    struct udphdr udp;
    __be16 number;
    __be16 sequence;
    __be16 datagrams;
    __be16 reserved;
    __u8 magic;
    __u8 opcode;
    __be16 key_length;
    __u8 extras_length;
    __u8 data_type;
    __be16 status;
    __be32 body_length;
    __be32 opaque;
    __be64 cas;
} __attribute__((packed));

struct key {
    __u8 length;
    __u8 b[KEY_BYTES];
};

struct item {
    __be32 flags;
    __u32 length;
    __u8 b[VALUE_BYTES];
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 65536);
    __type(key, struct key);
    __type(value, struct item);
} items SEC(".maps");

COUNTERS(1, 1);

/* Turns the request into an answer with a body of so many bytes; null if the frame cannot have that
 * length. */
static __always_inline struct request *answer(struct xdp_md *ctx, __u32 length, __u32 extras,
                                              __u32 body, __u16 status)
{
    if (bpf_xdp_adjust_tail(ctx, (int)(sizeof(struct request) + body) - (int)length))
        return 0;
    struct request *r = (void *)(long)ctx->data;
    if ((void *)(r + 1) + extras > (void *)(long)ctx->data_end)
        return 0;
    __u8 mac[ETH_ALEN] __attribute__((aligned(8)));
    copy_mac(mac, r->eth.h_source);
    copy_mac(r->eth.h_source, r->eth.h_dest);
    copy_mac(r->eth.h_dest, mac);
    __u32 udp_length = sizeof(*r) - sizeof(r->eth) - sizeof(r->ip) + body;
    __be32 address = r->ip.saddr;
    r->ip.saddr = r->ip.daddr;
    r->ip.daddr = address;
    r->ip.tot_len = bpf_htons(sizeof(r->ip) + udp_length);
    r->ip.ttl = 64;
    r->ip.check = 0;
    r->ip.check = header_csum(&r->ip);
    r->udp.dest = r->udp.source;
    r->udp.source = bpf_htons(MEMCACHED_PORT);
    r->udp.len = bpf_htons(udp_length);
    r->udp.check = 0;
    r->magic = 0x81;
    r->key_length = 0;
    r->extras_length = extras;
    r->status = bpf_htons(status);
    r->body_length = bpf_htonl(body);
    r->cas = 0;
    return r;
}

SEC("xdp")
int nf_net_recv(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data;
    void *end = (void *)(long)ctx->data_end;
    struct request *r = data;

    if ((void *)(r + 1) > end || r->eth.h_proto != bpf_htons(ETH_P_IP) || r->ip.ihl != 5 ||
        (r->ip.frag_off & bpf_htons(0x3fff)) || r->ip.protocol != IPPROTO_UDP ||
        r->udp.dest != bpf_htons(MEMCACHED_PORT) || r->datagrams != bpf_htons(1) ||
        r->magic != 0x80 || r->data_type)
        return pass();
    __u64 frame = end - data;
    asm volatile("" : "+r"(frame));
    __u64 key_length = bpf_ntohs(r->key_length);
    __u32 body = bpf_ntohl(r->body_length), extras = r->extras_length;
    if (key_length == 0 || key_length > KEY_BYTES || body > frame - sizeof(*r) ||
        key_length + extras > body)
        return pass();
    struct key key __attribute__((aligned(8))) = {0};
    key.length = key_length;
    /* The helper wants to see the bounds of the very number that it gets. */
    asm volatile("" : "+r"(key_length));
    if (key_length - 1 >= KEY_BYTES ||
        bpf_xdp_load_bytes(ctx, sizeof(*r) + extras, key.b, key_length))
        return pass();

    if (r->opcode == GET) {
        if (body != key_length)
            return pass();
        struct item *item = bpf_map_lookup_elem(&items, &key);
        if (!item)
            return pass();
        __u64 length = item->length;
        r = answer(ctx, frame, sizeof(item->flags), sizeof(item->flags) + length, 0);
        if (!r)
            return XDP_ABORTED;
        *(__be32 *)(r + 1) = item->flags;
        asm volatile("" : "+r"(length));
        if (length - 1 < VALUE_BYTES &&
            bpf_xdp_store_bytes(ctx, sizeof(*r) + sizeof(item->flags), item->b, length))
            return XDP_ABORTED;
        return send_back();
    }
    __be32 *set = (void *)(r + 1);
    __u64 length = body - extras - key_length;
    if (r->opcode != SET || extras != 8 || length > VALUE_BYTES || r->cas ||
        (void *)(set + 2) > end || set[1]) {
        bpf_map_delete_elem(&items, &key);
        return pass();
    }
    struct item item __attribute__((aligned(8))) = {.flags = set[0], .length = length};
    asm volatile("" : "+r"(length));
    if (length - 1 < VALUE_BYTES &&
        bpf_xdp_load_bytes(ctx, sizeof(*r) + extras + key_length, item.b, length))
        return XDP_ABORTED;
    __u16 status = 0;
    if (bpf_map_update_elem(&items, &key, &item, BPF_ANY)) {
        refused(0);
        status = OUT_OF_MEMORY;
    }
    return answer(ctx, frame, 0, 0, status) ? send_back() : XDP_ABORTED;
}
