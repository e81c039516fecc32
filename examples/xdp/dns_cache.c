/* Answers DNS queries from a table: reads a name of up to three labels byte by byte into a hash,
 * looks the answer up in two places, compares the name, and turns the query into its answer. */
#include "xdp.h"

#define LABEL_BYTES 12

struct answer {
    __u32 check;
    __be32 address;
    __u32 name[6];
};

TABLE(cache, struct answer, 8192);

struct dns {
    __be16 id;
    __be16 flags;
    __be16 questions;
    __be16 answers;
    __be16 authorities;
    __be16 additional;
};

struct record {
    __be16 name;
    __be16 type;
    __be16 class;
    __be16 ttl[2];
    __be16 length;
    __be16 address[2];
};

struct name {
    __u32 hash;
    __u32 check;
};

/* One byte of a label, without case. False at the packet's end. */
INLINE int letter(struct packet *p, struct name *name)
{
    __u8 *byte = take(p, 1);
    if (!byte)
        return 0;
    __u32 c = *byte;
    if (c >= 'A' && c <= 'Z')
        c |= 0x20;
    name->hash = (name->hash ^ c) * 0x01000193;
    name->check = (name->check << 5 | name->check >> 27) + c;
    return 1;
}

/* A label: 0 if there may be another one, 1 after the last, -1 if it is not for us. */
INLINE int label(struct packet *p, struct name *name)
{
    __u8 *length = take(p, 1);
    if (!length)
        return -1;
    __u32 left = *length;
    if (left == 0)
        return 1;
    if (left > LABEL_BYTES)
        return -1;
#pragma unroll
    for (__u32 i = 0; i < LABEL_BYTES; i++)
        if (i < left && !letter(p, name))
            return -1;
    return 0;
}

SEC("xdp")
int dns_cache(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof *eth);
    if (!eth || eth->h_proto != bpf_htons(ETH_P_IP))
        return XDP_PASS;
    struct iphdr *ip = take(&p, sizeof *ip);
    if (!ip || ip->ihl != 5 || ip->protocol != IPPROTO_UDP)
        return XDP_PASS;
    struct udphdr *udp = take(&p, sizeof *udp);
    if (!udp || udp->dest != bpf_htons(53))
        return XDP_PASS;
    struct dns *dns = take(&p, sizeof *dns);
    if (!dns || dns->flags & bpf_htons(0xf800) || dns->questions != bpf_htons(1))
        return XDP_PASS;
    struct name name = {.hash = 0x811c9dc5};
    int done = label(&p, &name);
    if (!done)
        done = label(&p, &name);
    if (!done)
        done = label(&p, &name);
    if (done < 0)
        return XDP_PASS;
    __u32 hash = name.hash, check = name.check;
    if (!done) {
        __u8 *end = take(&p, 1);
        if (!end || *end)
            return XDP_PASS;
    }
    struct record *question = take(&p, 4);
    if (!question || *(__u32 *)question != bpf_htonl(0x00010001))
        return XDP_PASS;
    __u32 key = hash & 8191;
    struct answer *answer = bpf_map_lookup_elem(&cache, &key);
    if (!answer)
        return XDP_PASS;
    if (answer->check != check) {
        key = hash >> 16 & 8191;
        answer = bpf_map_lookup_elem(&cache, &key);
        if (!answer || answer->check != check)
            return XDP_PASS;
    }
    struct record *record = take(&p, sizeof *record);
    if (!record)
        return XDP_PASS;
    record->name = bpf_htons(0xc00c);
    record->type = bpf_htons(1);
    record->class = bpf_htons(1);
    record->ttl[0] = 0;
    record->ttl[1] = bpf_htons(60);
    record->length = bpf_htons(4);
    record->address[0] = answer->address;
    record->address[1] = answer->address >> 16;
    dns->flags |= bpf_htons(0x8400);
    dns->answers = bpf_htons(1);
    __be32 address = ip->saddr;
    ip->saddr = ip->daddr;
    ip->daddr = address;
    __be16 port = udp->source;
    udp->source = udp->dest;
    udp->dest = port;
    udp->check = 0;
    return XDP_TX;
}
