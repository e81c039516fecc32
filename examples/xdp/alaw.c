/* Turns G.711 A-law into mu-law in RTP packets of up to 160 samples (20 ms), by way of the linear
 * value: the segment is found by comparing, one after the other. -DOPTIMISED takes the short way
 * for samples that a table of segments decides. */
#include "xdp.h"

#ifndef SAMPLES
#define SAMPLES 160
#endif

struct rtp {
    __u8 flags;
    __u8 type;
    __be16 sequence;
    __be32 timestamp;
    __be32 source;
};

#ifdef OPTIMISED
/* The two codes differ by little: by how much is decided from the largest values down, so small
 * ones take longest. */
INLINE __u8 transcode(__u8 sample)
{
    __u8 sign = sample & 0x80;
    __u32 code = (sample ^ 0x55) & 0x7f;
    if (code < 8)
        code = code << 1 | 1;
    else if (code < 96) {
        if (code >= 63)
            code += 1;
        else if (code >= 47)
            code += 2;
        else if (code >= 31)
            code += code < 45 ? 4 : 3;
        else if (code < 25)
            code += 8;
        else
            code += 20 - ((code + 1) >> 1);
    }
    return sign | (code ^ 0x7f);
}
#else
INLINE __u8 transcode(__u8 sample)
{
    __u8 sign = sample & 0x80;
    sample ^= 0x55;
    /* A-law to linear, at the scale of mu-law. */
    __u32 segment = sample >> 4 & 7, linear = (sample & 15) << 2 | 2;
    if (segment)
        linear = (linear + 64) << ((segment - 1) & 7);
    /* Linear to mu-law: find the segment from above. */
    linear += 33;
    __u32 mu = 0;
    if (linear >= 4096)
        mu = 7;
    else if (linear >= 2048)
        mu = 6;
    else if (linear >= 1024)
        mu = 5;
    else if (linear >= 512)
        mu = 4;
    else if (linear >= 256)
        mu = 3;
    else if (linear >= 128)
        mu = 2;
    else if (linear >= 64)
        mu = 1;
    __u32 mantissa = linear >> ((mu + 1) & 15) & 15;
    return sign | ((mu << 4 | mantissa) ^ 0x7f);
}
#endif

SEC("xdp")
int alaw(struct xdp_md *ctx)
{
    struct packet p = packet_of(ctx);
    struct ethhdr *eth = take(&p, sizeof *eth);
    if (!eth || eth->h_proto != bpf_htons(ETH_P_IP))
        return XDP_PASS;
    struct iphdr *ip = take(&p, sizeof *ip);
    if (!ip || ip->ihl != 5 || ip->protocol != IPPROTO_UDP)
        return XDP_PASS;
    struct udphdr *udp = take(&p, sizeof *udp);
    if (!udp || udp->dest != bpf_htons(5004))
        return XDP_PASS;
    struct rtp *rtp = take(&p, sizeof *rtp);
    if (!rtp || rtp->flags >> 6 != 2 || (rtp->type & 0x7f) != 8)
        return XDP_PASS;
    rtp->type &= 0x80;
    udp->check = 0;
#pragma clang loop unroll(disable)
    for (int i = 0; i < SAMPLES; i++) {
        __u8 *sample = take(&p, 1);
        if (!sample)
            break;
        *sample = transcode(*sample);
    }
    return XDP_TX;
}
