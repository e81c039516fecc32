// SPDX-License-Identifier: Apache-2.0 OR MIT
// Idioms of other compilers, gcc for BPF among them: casts by two shifts, ranges by a subtraction,
// pointers beside small numbers; and a product that wraps.
#include <linux/bpf.h>
#include <linux/if_ether.h>

#include <bpf/bpf_helpers.h>

// The bytes to drop are 16 or 12, and 4 more for each of two flags.
SEC("xdp/casts") int casts(struct xdp_md *ctx)
{
    long verdict;
    asm volatile("r6 = %[ctx]\n"
                 "r3 = *(u32 *)(r6 + 0)\n"
                 "r4 = *(u32 *)(r6 + 4)\n"
                 "r5 = r3\n"
                 "r5 += 40\n"
                 "%[verdict] = 1\n"
                 "if r5 > r4 goto 1f\n"
                 "r5 = *(u8 *)(r3 + 0)\n"
                 "r1 = r5\n"
                 "w1 &= 4\n"
                 "if w1 == 0 goto 4f\n"
                 "r2 = 16\n"
                 "r1 = r5\n"
                 "w1 &= 1\n"
                 "if w1 == 0 goto 2f\n"
                 "w2 += 4\n"
                 "r2 <<= 32\n"
                 "r2 s>>= 32\n"
                 "2: w5 &= 2\n"
                 "if w5 == 0 goto 3f\n"
                 "5: w2 += 4\n"
                 "r2 <<= 32\n"
                 "r2 s>>= 32\n"
                 "3: r1 = r6\n"
                 "call 44\n"
                 "r1 = r0\n"
                 "%[verdict] = 1\n"
                 "if r1 != 0 goto 1f\n"
                 "%[verdict] = 3\n"
                 "goto 1f\n"
                 "4: r2 = 12\n"
                 "w5 &= 2\n"
                 "if w5 == 0 goto 3b\n"
                 "goto 5b\n"
                 "1:\n"
                 : [verdict] "=&r"(verdict)
                 : [ctx] "r"(ctx)
                 : "r0", "r1", "r2", "r3", "r4", "r5", "r6");
    return verdict;
}

// 1 to 4 segments of 16 bytes are put in front.
SEC("xdp/segments") int segments(struct xdp_md *ctx)
{
    long verdict;
    asm volatile("r6 = %[ctx]\n"
                 "r3 = *(u32 *)(r6 + 0)\n"
                 "r4 = *(u32 *)(r6 + 4)\n"
                 "r5 = r3\n"
                 "r5 += 14\n"
                 "%[verdict] = 1\n"
                 "if r5 > r4 goto 1f\n"
                 "if r3 == -1 goto 1f\n"
                 "if r5 != 14 goto 2f\n"
                 "goto 1f\n"
                 "2: r7 = *(u8 *)(r3 + 5)\n"
                 "w7 &= 7\n"
                 "r2 = r7\n"
                 "w2 += -1\n"
                 "%[verdict] = 2\n"
                 "if w2 > 3 goto 1f\n"
                 "r2 = r7\n"
                 "w2 <<= 4\n"
                 "w2 += 8\n"
                 "w2 = -w2\n"
                 "r1 = r6\n"
                 "call 44\n"
                 "r1 = r0\n"
                 "%[verdict] = 1\n"
                 "if r1 != 0 goto 1f\n"
                 "r3 = *(u32 *)(r6 + 0)\n"
                 "r4 = *(u32 *)(r6 + 4)\n"
                 "w7 <<= 4\n"
                 "r7 += 8\n"
                 "r3 += r7\n"
                 "r5 = r3\n"
                 "r5 += 6\n"
                 "if r5 > r4 goto 1f\n"
                 "r1 = *(u8 *)(r3 + 5)\n"
                 "w1 ^= 255\n"
                 "*(u8 *)(r3 + 0) = r1\n"
                 "%[verdict] = 3\n"
                 "1:\n"
                 : [verdict] "=&r"(verdict)
                 : [ctx] "r"(ctx)
                 : "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7");
    return verdict;
}

// The product wraps, so it is a multiple of 4 only: 16 is one where the byte is 4.
SEC("xdp/wraps") int wraps(struct xdp_md *ctx)
{
    __u64 places[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    long verdict;
    asm volatile("r3 = *(u32 *)(%[ctx] + 0)\n"
                 "r4 = *(u32 *)(%[ctx] + 4)\n"
                 "r5 = r3\n"
                 "r5 += 14\n"
                 "%[verdict] = 1\n"
                 "if r5 > r4 goto 1f\n"
                 "r2 = *(u8 *)(r3 + 0)\n"
                 "w2 &= 31\n"
                 "w2 *= 0x40000004\n"
                 "r1 = r2\n"
                 "w1 += 1\n"
                 "*(u8 *)(r3 + 2) = r1\n"
                 "if w2 > 40 goto 1f\n"
                 "r1 = %[places]\n"
                 "r1 += r2\n"
                 "r1 = *(u8 *)(r1 + 0)\n"
                 "*(u8 *)(r3 + 1) = r1\n"
                 "%[verdict] = 3\n"
                 "1:\n"
                 : [verdict] "=&r"(verdict)
                 : [ctx] "r"(ctx), [places] "r"(places)
                 : "r1", "r2", "r3", "r4", "r5", "memory");
    return verdict;
}

// From 0x172 to 0x272, of which the low byte with its sign is any number; `.8byte` is r1 = (s8)r2.
SEC("xdp/signs") int signs(struct xdp_md *ctx)
{
    long verdict;
    asm volatile("r3 = *(u32 *)(%[ctx] + 0)\n"
                 "r4 = *(u32 *)(%[ctx] + 4)\n"
                 "r5 = r3\n"
                 "r5 += 14\n"
                 "%[verdict] = 1\n"
                 "if r5 > r4 goto 1f\n"
                 "r2 = *(u8 *)(r3 + 5)\n"
                 "r1 = *(u8 *)(r3 + 0)\n"
                 "w1 &= 1\n"
                 "r2 += r1\n"
                 "r2 += 0x172\n"
                 ".8byte 0x821bf\n"
                 "*(u8 *)(r3 + 0) = r1\n"
                 "%[verdict] = 3\n"
                 "1:\n"
                 : [verdict] "=&r"(verdict)
                 : [ctx] "r"(ctx)
                 : "r1", "r2", "r3", "r4", "r5");
    return verdict;
}

// A number of headers from 1 to 10: a byte less one, which two comparisons with signs say. Each
// makes 16 bytes of room.
SEC("xdp/counts") int counts(struct xdp_md *ctx)
{
    void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
    if (data + 14 > end) {
        return XDP_DROP;
    }
    long count = *(__u8 *)data & 15;
    asm volatile("%[count] += -1\n" : [count] "+r"(count));
    if (count < 1) {
        return XDP_PASS;
    }
    asm volatile("" : "+r"(count));
    if (count > 10) {
        return XDP_TX;
    }
    if (bpf_xdp_adjust_head(ctx, -16 * (int)count)) {
        return XDP_DROP;
    }
    data = (void *)(long)ctx->data, end = (void *)(long)ctx->data_end;
    if (data + 16 > end) {
        return XDP_DROP;
    }
    __builtin_memset(data, 0, 16);
    *(__u8 *)data = count;
    return XDP_TX;
}

char _license[] SEC("license") = "GPL";
