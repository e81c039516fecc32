// SPDX-License-Identifier: Apache-2.0 OR MIT
// What is printed for the developer, and bytes of the packet as a message of their own.
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct {
    __uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
    __uint(key_size, sizeof(__u32));
    __uint(value_size, sizeof(__u32));
} events SEC(".maps");

SEC("xdp") int prints(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    __u8 address[16] = {0};
    if (data + 34 > end)
        return XDP_ABORTED;
    __builtin_memcpy(address, data + 26, 4);
    bpf_printk("from %pI4, {} %d%%", address, 100);
    bpf_printk("over %pI6 %hhx", address, address[3]);
    bpf_printk("%s at %p", "packet", address);
    bpf_trace_printk(address[3] & 1 ? "odd\n" : "two\n", 5);
    return XDP_PASS;
}

/* The packet alone, as a capture takes it. */
SEC("xdp") int capture(struct xdp_md *ctx)
{
    __u64 flags = BPF_F_CURRENT_CPU | (__u64)(ctx->data_end - ctx->data) << 32;
    struct {
    } nothing;
    bpf_perf_event_output(ctx, &events, flags, &nothing, 0);
    return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
