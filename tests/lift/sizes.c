// SPDX-License-Identifier: Apache-2.0 OR MIT
// Messages of several sizes, and what compilers do beside: half of a pointer that nobody needs, and
// a state of two numbers that says which way was taken.
#include <linux/bpf.h>
#include <linux/if_ether.h>

#include <bpf/bpf_helpers.h>

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 65536);
} events SEC(".maps");

struct brief {
    __u32 length;
    __u8 first;
    __u16 last;
} __attribute__((packed));

struct full {
    __u64 length;
    __u8 addresses[16];
};

SEC("xdp") int sizes(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    struct ethhdr *eth = data;
    if (data + sizeof *eth > end)
        return XDP_DROP;
    asm volatile("w2 = w10\nw2 &= 255\nw2 += 7" ::: "r2");
    struct brief brief = {end - data, eth->h_dest[5], eth->h_proto};
    if (brief.first & 1) {
        struct full full = {.length = brief.length};
        __builtin_memcpy(full.addresses, eth, 12);
        bpf_ringbuf_output(&events, &full, sizeof full, 0);
    } else {
        bpf_ringbuf_output(&events, &brief, sizeof brief, 0);
    }
    return XDP_PASS;
}

// Where the packet is too short, `r3` is a pointer and `r4` negative.
SEC("xdp/few") int few(struct xdp_md *ctx)
{
    long verdict;
    asm volatile("r1 = %[ctx]\n"
                 "r2 = *(u32 *)(r1 + 4)\n"
                 "r3 = *(u32 *)(r1 + 0)\n"
                 "r5 = r3\n"
                 "r5 += 40\n"
                 "r4 = 0\n"
                 "if r5 > r2 goto 1f\n"
                 "goto 2f\n"
                 "1: r4 = -22\n"
                 "2: if w4 != 0 goto 3f\n"
                 "r3 = *(u8 *)(r3 + 39)\n"
                 "3: %[verdict] = 1\n"
                 "if w4 s< 0 goto 4f\n"
                 "w3 &= 1\n"
                 "w3 += 2\n"
                 "%[verdict] = r3\n"
                 "4:\n"
                 : [verdict] "=&r"(verdict)
                 : [ctx] "r"(ctx)
                 : "r1", "r2", "r3", "r4", "r5");
    return verdict;
}

char _license[] SEC("license") = "GPL";
