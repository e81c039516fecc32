// SPDX-License-Identifier: Apache-2.0 OR MIT
// Loops of so many trips that they cannot be written out: a hash table of one's own in a map's
// value, gone through by callbacks, and packet bytes looked at one by one.
#include <linux/bpf.h>
#include <linux/if_ether.h>

#include <bpf/bpf_helpers.h>

#define SLOTS 4096

struct slot {
    __u8 used;
    __u16 key;
    __u32 count;
} __attribute__((packed));

struct store {
    __u32 size;
    struct slot slots[SLOTS];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, struct store);
    __uint(max_entries, 1);
} stores SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, __u32[8]);
    __uint(max_entries, 1);
} sums SEC(".maps");

struct search {
    struct store *store;
    struct slot *found;
    __u32 at;
    __u16 key;
};

static int compare(__u32 trip, struct search *search)
{
    struct slot *slot = &search->store->slots[search->at & (SLOTS - 1)];
    if (slot->used && slot->key == search->key) {
        search->found = slot;
        return 1;
    }
    if (!slot->used)
        return 1;
    search->at++;
    return 0;
}

SEC("xdp/search") int search(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    __u8 *byte = data;
    __u32 zero = 0;
    struct store *store = bpf_map_lookup_elem(&stores, &zero);
    if (data + 24 > end || !store)
        return XDP_DROP;
    struct search search = {.store = store, .key = byte[23] % 5 * 256 + byte[5] % 3};
    search.at = search.key % 7;
    bpf_loop(SLOTS, compare, &search, 0);
    if (search.found) {
        search.found->count++;
        return search.found->count % 4 ? XDP_PASS : XDP_TX;
    }
    struct slot *slot = &store->slots[search.at & (SLOTS - 1)];
    slot->used = 1;
    slot->key = search.key;
    slot->count = 1;
    store->size++;
    return XDP_PASS;
}

struct sum {
    struct xdp_md *ctx;
    __u32 total, last;
    __u16 at;
};

static int add(__u32 trip, struct sum *sum)
{
    void *data = (void *)(long)sum->ctx->data, *end = (void *)(long)sum->ctx->data_end;
    __u8 *byte = data + (trip & 0xfff);
    if (byte + 1 > (__u8 *)end)
        return 1;
    if (*byte == 0x45 && !sum->at)
        sum->at = trip;
    sum->last = sum->total;
    sum->total = sum->total * 31 + *byte;
    return 0;
}

SEC("xdp/bytes") int bytes(struct xdp_md *ctx)
{
    struct sum sum = {.ctx = ctx};
    long trips = bpf_loop(4000, add, &sum, 0);
    __u32 zero = 0;
    struct store *store = bpf_map_lookup_elem(&stores, &zero);
    if (!store)
        return XDP_ABORTED;
    store->size = sum.total + sum.at + trips * 65536;
    return sum.last % 3 ? XDP_PASS : XDP_TX;
}

// A loop in instructions, which may be left early.
SEC("xdp/counted") int counted(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    __u8 *byte = data;
    __u32 zero = 0, sum = 0, *sums_of = bpf_map_lookup_elem(&sums, &zero);
    if (data + 64 > end || !sums_of)
        return XDP_DROP;
#pragma clang loop unroll(disable)
    for (__u64 i = 0; i < 400; i++) {
        sum = (sum << 5 | sum >> 27) ^ byte[i & 63];
        if (sum % 1021 == 7)
            break;
        sums_of[i & 7] += sum;
    }
    return sum & 1 ? XDP_PASS : XDP_TX;
}

char _license[] SEC("license") = "GPL";
