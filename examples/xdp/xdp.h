/* What the programs of this folder share: headers, bounds checks, and tables that an Agilio CX can
 * look up in line. */
#ifndef EXAMPLES_XDP_H
#define EXAMPLES_XDP_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define INLINE static inline __attribute__((always_inline))

struct packet {
    void *at;
    void *end;
};

INLINE struct packet packet_of(struct xdp_md *ctx)
{
    return (struct packet){(void *)(long)ctx->data, (void *)(long)ctx->data_end};
}

/* The next `size` bytes, or null. */
INLINE void *take(struct packet *p, unsigned size)
{
    void *here = p->at;
    if (here + size > p->end)
        return 0;
    p->at = here + size;
    return here;
}

#define TABLE(name, contents, entries)                                                             \
    struct {                                                                                       \
        __uint(type, BPF_MAP_TYPE_ARRAY);                                                          \
        __uint(max_entries, entries);                                                              \
        __type(key, __u32);                                                                        \
        __type(value, contents);                                                                   \
    } name SEC(".maps")

/* One round of a multiplicative hash. */
INLINE __u32 mix(__u32 hash, __u32 value)
{
    hash ^= value;
    hash *= 0x9e3779b1;
    return hash ^ hash >> 15;
}

/* A sum of 16-bit words as a checksum (RFC 1071). */
INLINE __u16 folded(__u32 sum)
{
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return ~sum;
}

/* A checksum once 32 bits that it covers have changed (RFC 1624). */
INLINE __u16 changed(__u16 check, __u32 from, __u32 to)
{
    __u32 sum = (__u16)~check;
    sum += (__u16)~from + (__u16) ~(from >> 16);
    sum += (to & 0xffff) + (to >> 16);
    return folded(sum);
}

char _license[] SEC("license") = "Dual BSD/GPL";

#endif
