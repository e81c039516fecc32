/* SPDX-License-Identifier: 0BSD
 *
 * balance.bpf.c - monitor, director and merger of the load balancer between NIC and host, on
 * interfaces.
 *
 *   uplink -> nfb_ingress -> NIC side (untouched) or host (rewritten)
 *   host   -> nfb_from_host -> uplink (rewritten back)
 *   NIC    -> nfb_from_nic  -> uplink
 *
 * It does packet by packet what crates/balance/src/director does, and a test compares them. What
 * never changes is read-only data, so the verifier removes the other modes; what the policy changes
 * is global data, written through a mapping. Meters are per CPU: user space gives each its part of
 * the threshold. They read the clock only when what they may keep is used up, since that costs more
 * than all else.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

enum { WINDOW, TOKEN_BUCKET, PROPORTIONAL, FLOW_AFFINE };
enum { METERED, ALL_NIC, ALL_HOST };
enum { UPLINK, NIC, HOST };

/* Preamble, CRC, gap between frames. */
#define WIRE_OVERHEAD 24
#define RATE_SHIFT 20
#define SHARE_SHIFT 16
#define LONGEST_REFILL_NS (1 << 24)
#define BUCKETS 1024
#define MOST_VIPS 64

/* Set when it is compiled: how bytes are metered, and whether meters read the clock only when they
 * must. */
#ifndef NFB_MODE
#define NFB_MODE TOKEN_BUCKET
#endif
#ifndef NFB_LAZY
#define NFB_LAZY 1
#endif
/* Decides and counts, changes and diverts nothing. */
#ifndef NFB_SHADOW
#define NFB_SHADOW 0
#endif
/* The NIC side is this kernel's own network stack. */
#ifndef NFB_NIC_IS_STACK
#define NFB_NIC_IS_STACK 0
#endif
/* Single packets: the clock is nfb_set.test_now, and verdicts are 1 (other), 2 (NIC), 3 (host or
 * rewritten). */
#ifndef NFB_TEST
#define NFB_TEST 0
#endif

struct nfb_set {
    __u64 window_ns;
    __u64 credit;
    __u64 rate;
    __u64 burst;
    __u64 host_share;
    __u64 drain_ns;
    __u64 test_now;
    __u64 route;
};

struct nfb_set nfb_set SEC(".data.set") = {.window_ns = 100000};

struct nfb_cpu {
    __u64 left;
    __u64 at;
    __u64 owed;
    __u64 nic_packets;
    __u64 nic_bytes;
    __u64 host_packets;
    __u64 host_bytes;
    __u64 merged;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct nfb_cpu);
} nfb_cpus SEC(".maps");

struct nfb_bucket {
    __u32 host;
    __u32 wanted;
    __u64 last_ns;
    __u64 bytes;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, BUCKETS);
    __type(key, __u32);
    __type(value, struct nfb_bucket);
} nfb_buckets SEC(".maps");

/* What replaces an address: the MAC that goes with it, and what the change adds to the complement
 * of a checksum. */
struct nfb_rewrite {
    __u8 mac[6];
    __u16 delta;
    __u32 address[4];
};

struct address6 {
    __u32 words[4];
};

/* By the addresses of VIPs (from the wire) and of hosts (towards it). */
#define REWRITES(name, key_type)                                                                   \
    struct {                                                                                       \
        __uint(type, BPF_MAP_TYPE_HASH);                                                           \
        __uint(max_entries, MOST_VIPS);                                                            \
        __type(key, key_type);                                                                     \
        __type(value, struct nfb_rewrite);                                                         \
    } name SEC(".maps")

REWRITES(nfb_vips4, __u32);
REWRITES(nfb_vips6, struct address6);
REWRITES(nfb_hosts4, __u32);
REWRITES(nfb_hosts6, struct address6);

struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP);
    __uint(max_entries, 3);
    __type(key, __u32);
    __type(value, __u32);
} nfb_ports SEC(".maps");

/* Where a packet has what matters; pointers are into the frame, or null. `six` is a constant
 * wherever this is used. */
struct packet {
    void *ip;
    __u16 *sum;   /* of the fourth layer, over addresses */
    __u32 *ports; /* of whole packets */
    __u8 protocol;
    bool fragment;
    bool udp;
};

/* False if the packet is cut off before what would be touched. */
static __always_inline bool find_fourth(struct packet *p, void *at, void *end, bool six)
{
    if (p->protocol == 17) {
        if (at + 8 > end)
            return false;
        p->udp = true;
        p->sum = at + 6;
        p->ports = at;
    } else if (p->protocol == 6) {
        if (at + 18 > end)
            return false;
        p->sum = at + 16;
        p->ports = at;
    } else if (six && p->protocol == 58) {
        if (at + 4 > end)
            return false;
        p->sum = at + 2;
    }
    return true;
}

static __always_inline bool find4(struct packet *p, void *ip, void *end)
{
    void *fourth = ip + 20;

    if (fourth > end)
        return false;
    p->ip = ip;
    p->protocol = *(__u8 *)(ip + 9);
    __u8 first = *(__u8 *)ip;
    if (first != 0x45) {
        __u32 length = (first & 15) * 4;
        if (first >> 4 != 4 || length < 20)
            return false;
        fourth = ip + length;
        if (fourth > end)
            return false;
    }
    __u16 place = *(__u16 *)(ip + 6);
    if (place & bpf_htons(0x3fff)) {
        p->fragment = true;
        if (place & bpf_htons(0x1fff))
            return true;
    }
    return find_fourth(p, fourth, end, false);
}

static __always_inline bool find6(struct packet *p, void *ip, void *end)
{
    if (ip + 40 > end || *(__u8 *)ip >> 4 != 6)
        return false;
    __u8 next = *(__u8 *)(ip + 6);
    __u32 length = 40;
    bool first = true;

    p->ip = ip;
    if (next == 6 || next == 17) {
        p->protocol = next;
        return find_fourth(p, ip + 40, end, true);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        void *at = ip + length;
        if (next == 0 || next == 60) {
            if (at + 2 > end)
                return false;
            next = *(__u8 *)at;
            length += 8 + 8 * (__u32) * (__u8 *)(at + 1);
        } else if (next == 44) {
            if (at + 8 > end)
                return false;
            __u16 place = bpf_ntohs(*(__u16 *)(at + 2));
            next = *(__u8 *)at;
            p->fragment |= (place & 0xfff9) != 0;
            first &= !(place & 0xfff8);
            length += 8;
        } else {
            break;
        }
    }
    /* A routing header changes which destination the checksum covers: not ours. */
    if (next == 0 || next == 43 || next == 44 || next == 60)
        return false;
    p->protocol = next;
    return !first || find_fourth(p, ip + length, end, true);
}

/* Takes tags off; gives the EtherType of what is at `ip`, 0 if there is nothing. */
static __always_inline __u16 untag(void **ip, void *data, void *end)
{
    void *at = data + 14;

    *ip = at;
    if (at > end)
        return 0;
    __u16 kind = *(__u16 *)(data + 12);
    if (kind == bpf_htons(ETH_P_IP) || kind == bpf_htons(ETH_P_IPV6))
        return kind;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if (kind == bpf_htons(0x8100) || kind == bpf_htons(0x88a8)) {
            at += 4;
            if (at > end)
                return 0;
            kind = *(__u16 *)(at - 2);
        }
    }
    *ip = at;
    return kind;
}

/* RFC 1624: ones' complement sums do not mind the byte order. */
static __always_inline __u16 patch(__u16 sum, __u16 delta)
{
    __u32 next = (__u16)~sum + (__u32)delta;
    next = (next & 0xffff) + (next >> 16);
    return ~next;
}

static __always_inline void copy_mac(void *to, const void *from)
{
    *(__u32 *)to = *(const __u32 *)from;
    *(__u16 *)(to + 4) = *(const __u16 *)(from + 4);
}

/* Replaces the address at `at` and the MAC at `mac`. */
static __always_inline void rewrite(struct packet *p, void *mac, __u32 *at,
                                    const struct nfb_rewrite *to, bool six)
{
    copy_mac(mac, to->mac);
    if (p->sum && !(p->udp && !*p->sum)) {
        __u16 sum = patch(*p->sum, to->delta);
        *p->sum = p->udp && !sum ? 0xffff : sum;
    }
    at[0] = to->address[0];
    if (six) {
        at[1] = to->address[1];
        at[2] = to->address[2];
        at[3] = to->address[3];
        return;
    }
    __u16 *header = p->ip + 10;
    *header = patch(*header, to->delta);
}

static __always_inline __u64 now_ns(void)
{
    return NFB_TEST ? nfb_set.test_now : bpf_ktime_get_ns();
}

static __always_inline __u32 mix(__u32 hash, __u32 word)
{
    hash = (hash ^ bpf_ntohl(word)) * 0x85ebca6b;
    return ((hash << 13) | (hash >> 19)) + 0xc2b2ae35;
}

static __always_inline bool bucket_to_host(const struct packet *p, __u32 bytes, bool six)
{
    const __u32 *addresses = p->ip + (six ? 8 : 12);
    __u32 hash = p->protocol + 0x9e3779b9;

    hash = mix(mix(hash, addresses[0]), addresses[1]);
    if (six) {
        hash = mix(mix(mix(hash, addresses[2]), addresses[3]), addresses[4]);
        hash = mix(mix(mix(hash, addresses[5]), addresses[6]), addresses[7]);
    }
    if (p->ports && !p->fragment)
        hash = mix(hash, *p->ports);
    hash ^= hash >> 16;
    hash = (hash * 0x7feb352d) >> 16 & (BUCKETS - 1);

    struct nfb_bucket *bucket = bpf_map_lookup_elem(&nfb_buckets, &hash);
    if (!bucket)
        return false;
    __sync_fetch_and_add(&bucket->bytes, bytes);
    if (bucket->host != bucket->wanted) {
        __u64 now = now_ns(), last = bucket->last_ns;
        if (last && now - last >= nfb_set.drain_ns) {
            bucket->host = bucket->wanted;
            bucket->last_ns = 0;
        } else {
            bucket->last_ns = now;
        }
    } else if (bucket->last_ns) {
        bucket->last_ns = 0;
    }
    return bucket->host;
}

static __always_inline bool keep(struct nfb_cpu *cpu, __u32 bytes)
{
    if (NFB_MODE == WINDOW) {
        if (!NFB_LAZY || !cpu->left) {
            __u64 window = now_ns() / nfb_set.window_ns;
            if (window != cpu->at) {
                cpu->at = window;
                cpu->left = nfb_set.credit;
            }
        }
        __u64 left = cpu->left;
        cpu->left = left > bytes ? left - bytes : 0;
        return left;
    }
    if (NFB_MODE == TOKEN_BUCKET) {
        __u64 left = cpu->left;
        if (!NFB_LAZY || left < bytes) {
            __u64 now = now_ns(), passed = now - cpu->at;
            if (passed > LONGEST_REFILL_NS)
                passed = LONGEST_REFILL_NS;
            cpu->at = now;
            left += passed * nfb_set.rate >> RATE_SHIFT;
            if (left > nfb_set.burst)
                left = nfb_set.burst;
        }
        bool stays = left >= bytes;
        cpu->left = stays ? left - bytes : left;
        return stays;
    }
    __u64 share = nfb_set.host_share, owed = cpu->owed + bytes * share,
          whole = (__u64)bytes << SHARE_SHIFT;
    bool host = share && owed >= whole;
    cpu->owed = host ? owed - whole : owed;
    return !host;
}

static __always_inline int to(__u32 port, int verdict)
{
    if (NFB_TEST)
        return verdict;
    if (port == NIC && NFB_NIC_IS_STACK)
        return XDP_PASS;
    return bpf_redirect_map(&nfb_ports, port, 0);
}

static __always_inline struct nfb_cpu *this_cpu(void)
{
    __u32 zero = 0;
    return bpf_map_lookup_elem(&nfb_cpus, &zero);
}

/* A packet from the wire whose parts are known. */
static __always_inline int direct(struct packet *p, void *data, void *end, bool six)
{
    __u32 *address = p->ip + (six ? 24 : 16);
    struct nfb_rewrite *vip;
    bool host;

    if (six)
        vip = bpf_map_lookup_elem(&nfb_vips6, address);
    else
        vip = bpf_map_lookup_elem(&nfb_vips4, address);
    if (!vip)
        return to(NIC, 1);

    struct nfb_cpu *cpu = this_cpu();
    if (!cpu)
        return XDP_ABORTED;
    __u64 bytes = end - data + WIRE_OVERHEAD;
    if (nfb_set.route != METERED)
        host = nfb_set.route == ALL_HOST;
    else if (NFB_MODE == FLOW_AFFINE)
        host = bucket_to_host(p, bytes, six);
    else
        /* Parts of one packet must meet again, and only the first has ports. */
        host = p->fragment || !keep(cpu, bytes);
    if (!host) {
        cpu->nic_packets++;
        cpu->nic_bytes += bytes;
        return to(NIC, 2);
    }
    cpu->host_packets++;
    cpu->host_bytes += bytes;
    if (NFB_SHADOW)
        return to(NIC, 3);
    rewrite(p, data, address, vip, six);
    return to(HOST, 3);
}

SEC("xdp")
int nfb_ingress(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *ip;
    struct packet p = {0};
    __u16 kind = untag(&ip, data, end);

    if (kind == bpf_htons(ETH_P_IP) && find4(&p, ip, end))
        return direct(&p, data, end, false);
    if (kind == bpf_htons(ETH_P_IPV6) && find6(&p, ip, end))
        return direct(&p, data, end, true);
    return to(NIC, 1);
}

/* An answer of the host's whose parts are known. */
static __always_inline int merge(struct packet *p, void *data, bool six)
{
    __u32 *address = p->ip + (six ? 8 : 12);
    struct nfb_rewrite *vip;

    if (six)
        vip = bpf_map_lookup_elem(&nfb_hosts6, address);
    else
        vip = bpf_map_lookup_elem(&nfb_hosts4, address);
    if (!vip)
        return to(UPLINK, 1);
    struct nfb_cpu *cpu = this_cpu();
    if (cpu)
        cpu->merged++;
    rewrite(p, data + 6, address, vip, six);
    return to(UPLINK, 3);
}

SEC("xdp")
int nfb_from_host(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end, *ip;
    struct packet p = {0};
    __u16 kind = untag(&ip, data, end);

    if (kind == bpf_htons(ETH_P_IP) && find4(&p, ip, end))
        return merge(&p, data, false);
    if (kind == bpf_htons(ETH_P_IPV6) && find6(&p, ip, end))
        return merge(&p, data, true);
    return to(UPLINK, 1);
}

SEC("xdp")
int nfb_from_nic(struct xdp_md *ctx)
{
    (void)ctx;
    return to(UPLINK, 1);
}

/* What veth wants at the other end of an interface that frames are redirected to. */
SEC("xdp")
int nfb_pass(struct xdp_md *ctx)
{
    (void)ctx;
    return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
