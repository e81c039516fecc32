/* Redirects to all ports of a device map, by number and by key. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP);
    __uint(max_entries, 4);
    __type(key, __u32);
    __type(value, __u32);
} numbered SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_DEVMAP_HASH);
    __uint(max_entries, 4);
    __type(key, __u32);
    __type(value, struct bpf_devmap_val);
} named SEC(".maps");

SEC("xdp/all")
int all(struct xdp_md *ctx) { return bpf_redirect_map(&numbered, 0, BPF_F_BROADCAST); }

SEC("xdp/others")
int others(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct ethhdr *eth = data;
    if ((void *)(eth + 1) > end)
        return XDP_DROP;
    if (!(eth->h_dest[0] & 1))
        return bpf_redirect_map(&named, eth->h_dest[5], XDP_PASS);
    eth->h_source[0] ^= 2;
    return bpf_redirect_map(&named, 0, BPF_F_BROADCAST | BPF_F_EXCLUDE_INGRESS);
}

char _license[] SEC("license") = "GPL";
