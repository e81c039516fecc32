/* Global data that is not zero at first and that the program changes. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

__u32 limit = 3;
__u64 state = 0x123456789abcdefULL;
__u8 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
static __u16 step = 7;
__u64 counted = 100;

SEC("xdp")
int change(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    __u8 *bytes = data;
    if (data + 20 > end)
        return XDP_DROP;
    state = state * 5 + bytes[15];
    table[bytes[14] & 7] += bytes[16];
    __sync_fetch_and_add(&counted, 1);
    if (bytes[17] > limit) {
        limit += step;
        step ^= limit;
        return XDP_PASS;
    }
    bytes[18] = table[(bytes[14] + 1) & 7];
    return XDP_TX;
}

char _license[] SEC("license") = "GPL";
