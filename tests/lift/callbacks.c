/* Functions that the kernel calls back: loops with trips that are known or not, that end early, and
 * within each other; every entry of an array; records of a ring buffer, some of them thrown away.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 6);
    __type(key, __u32);
    __type(value, __u64);
} cells SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 4);
    __type(key, __u32);
    __type(value, __u64);
} totals SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 16);
} reports SEC(".maps");

struct work {
    __u64 sum;
    __u32 stop;
    __u32 seen;
};

static long one_trip(__u32 index, void *context)
{
    struct work *work = context;
    work->sum = work->sum * 3 + index;
    work->seen++;
    return index == work->stop;
}

static long both(__u32 index, void *context)
{
    struct work *work = context;
    bpf_loop(index & 3, one_trip, work, 0);
    return 0;
}

static long one_cell(void *map, __u32 *key, __u64 *value, void *context)
{
    struct work *work = context;
    *value += *key + 1;
    work->sum += *value;
    return work->sum > 400;
}

static __always_inline void total(__u32 at, __u64 by)
{
    __u64 *found = bpf_map_lookup_elem(&totals, &at);
    if (found)
        *found += by;
}

SEC("xdp/trips")
int trips(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct work work = {};
    if (data + 20 > end)
        return XDP_DROP;
    __u8 *bytes = data;
    work.stop = bytes[15];
    total(0, bpf_loop(bytes[14] & 15, one_trip, &work, 0));
    bpf_loop(5, both, &work, 0);
    if (bpf_loop(4, one_trip, &work, 1) >= 0)
        return XDP_ABORTED;
    if ((int)bpf_loop(1 << 24, one_trip, &work, 0) >= 0)
        return XDP_ABORTED;
    total(1, work.sum);
    total(2, work.seen);
    bytes[16] = work.sum;
    return XDP_TX;
}

SEC("xdp/cells")
int all_cells(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct work work = {};
    if (data + 20 > end)
        return XDP_DROP;
    work.sum = *(__u8 *)(data + 14);
    total(3, bpf_for_each_map_elem(&cells, one_cell, &work, 0));
    return work.sum & 1 ? XDP_PASS : XDP_TX;
}

struct report {
    __u64 bytes;
    __u16 protocol;
    __u8 source[6];
    __u32 first;
    __u32 last;
};

SEC("xdp/records")
int records(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct ethhdr *eth = data;
    if (data + 20 > end)
        return XDP_DROP;
    struct report *report = bpf_ringbuf_reserve(&reports, sizeof(*report), 0);
    if (!report)
        return XDP_ABORTED;
    report->bytes = end - data;
    report->protocol = eth->h_proto;
    __builtin_memcpy(report->source, eth->h_source, 6);
    report->first = *(__u32 *)(data + 14);
    report->last = 0;
    if (report->first & 1) {
        bpf_ringbuf_discard(report, 0);
        return XDP_PASS;
    }
    if (report->bytes > 100)
        report->last = 0x1234;
    bpf_ringbuf_submit(report, 0);
    return XDP_TX;
}

char _license[] SEC("license") = "GPL";
