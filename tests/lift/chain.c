/* A chain of programs: the first looks at the type, others at what is behind; the last one speaks
 * with the host. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

struct {
    __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
    __uint(max_entries, 4);
    __type(key, __u32);
    __type(value, __u32);
} jumps SEC(".maps");

/* Its loader says how many entries there are. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __type(key, __u32);
    __type(value, __u64);
} seen SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 16);
} events SEC(".maps");

volatile const __u32 limit = 3;

static void count(__u32 key)
{
    __u64 *value = bpf_map_lookup_elem(&seen, &key);
    if (value)
        __sync_fetch_and_add(value, 1);
}

SEC("xdp/first")
int first(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct ethhdr *eth = data;
    if ((void *)(eth + 1) > end)
        return XDP_DROP;
    count(0);
    bpf_tail_call(ctx, &jumps, eth->h_dest[5] & 3);
    count(1);
    return XDP_PASS;
}

SEC("xdp/second")
int second(struct xdp_md *ctx)
{
    count(2);
    if ((long)ctx->data_end - (long)ctx->data > 100)
        bpf_tail_call(ctx, &jumps, 2);
    return XDP_TX;
}

SEC("xdp/third")
int third(struct xdp_md *ctx)
{
    struct {
        __u32 length, limit, port;
    } event = {ctx->data_end - ctx->data, limit, ctx->ingress_ifindex};
    bpf_ringbuf_output(&events, &event, sizeof event, 0);
    count(limit);
    return event.length % 2 ? XDP_DROP : XDP_TX;
}
