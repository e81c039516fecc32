/* Unions whose members differ, as the headers of Linux and of the C library have them. */
#include <nicforge.h>

typedef uint8_t __u8;
typedef uint16_t __u16;
typedef uint32_t __u32;
typedef uint16_t __be16;
typedef uint32_t __be32;

struct in6 {
    union {
        __u8 bytes[16];
        __be16 halves[8];
        __be32 words[4];
    } of;
};

struct ip6 {
    __u8 priority : 4, version : 4;
    __u8 flow[3];
    __be16 length;
    __u8 next;
    __u8 hops;
    struct in6 source;
    struct in6 target;
};

struct icmp {
    __u8 type;
    __u8 code;
    __be16 check;
    union {
        struct {
            __be16 id;
            __be16 sequence;
        } echo;
        __be32 gateway;
        struct {
            __be16 unused;
            __be16 mtu;
        } fragment;
        __u8 reserved[4];
    } un;
};

/* None of these is as large as the union. */
union odd {
    __u8 tag;
    struct {
        __u16 low;
        __u8 rest[3];
    } __attribute__((packed)) parts;
    __u16 pair[2];
};

union flags {
    struct {
        __u16 reserved : 3, kind : 5, more : 1, number : 7;
    };
    __u16 all;
    signed char half[2];
};

struct state {
    union odd odd;
    union flags flags;
    struct in6 last;
};

NF_TABLE(hash, seen, struct in6, struct state, 64);

static const union flags first = {.half = {-3, 5}};

static uint32_t mix(const union flags *flags)
{
    return flags->kind ^ flags->number << 5 ^ (flags->half[1] < 0 ? 0x100u : 0);
}

static void turn(__be16 *half, union odd *odd)
{
    *half ^= nf_htons(0x1200);
    odd->parts.rest[1] += 3;
    odd->parts.low++;
}

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct ip6 ip;
    struct icmp icmp;
    if (!nf_extract(pkt, &eth) || !nf_extract(pkt, &ip) || !nf_extract(pkt, &icmp)) {
        nf_drop(pkt, "short");
        return;
    }
    struct state state = {.odd.parts = {.low = 7, .rest = {1, 2, 3}}, .flags = first};
    nf_lookup(&seen, ip.source, &state);
    unsigned at = ip.hops & 7;
    state.last.of.halves[at] ^= icmp.un.echo.sequence;
    state.last.of.bytes[ip.next & 15] += state.odd.tag;
    state.flags.kind += 1;
    state.flags.half[0] ^= (signed char)icmp.un.reserved[3];
    state.flags.all += mix(&state.flags);
    turn(&icmp.un.fragment.mtu, &state.odd);
    state.odd.pair[1] ^= (__u16)state.last.of.words[at & 3];
    union flags copy = state.flags;
    copy.number = state.odd.pair[0];
    icmp.un.echo.id = nf_htons(copy.all);
    icmp.un.gateway ^= nf_htonl(state.odd.pair[1]);
    ip.target.of.words[3] = ip.source.of.words[at & 3];
    memcpy(&ip.target.of.halves[1], &state.last.of.bytes[4], 6);
    if (memcmp(&ip.target, &ip.source, 16) < 0)
        ip.target.of.bytes[15] = state.odd.tag;
    nf_update(&seen, ip.source, state);
    nf_emit(pkt, &eth);
    nf_emit(pkt, &ip);
    nf_emit(pkt, &icmp);
    nf_send(pkt, copy.more);
}
