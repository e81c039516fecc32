/* What the NFP translator of Linux takes from the kernel around it, for a program of user space.
 *
 * Only declarations that its three files use. Registers' states come from whoever calls (judge.c),
 * so types of the verifier have the members that are read, and no others.
 */
#pragma once

#include <errno.h>
#include <limits.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef struct {
    int unused;
} spinlock_t;

#define U16_MAX UINT16_MAX
#define U32_MAX UINT32_MAX
#define U64_MAX UINT64_MAX
#define GFP_KERNEL 0
#define fallthrough __attribute__((__fallthrough__))
#define __force
#define __iomem

/* Bits and fields. */
#define BIT(n) (1UL << (n))
#define GENMASK(high, low) ((~0UL << (low)) & (~0UL >> (63 - (high))))
#define GENMASK_ULL GENMASK
#define __bf_shf(mask) (__builtin_ffsll(mask) - 1)
#define FIELD_PREP(mask, value) (((typeof(mask))(value) << __bf_shf(mask)) & (mask))
#define FIELD_GET(mask, word) ((typeof(mask))(((word) & (mask)) >> __bf_shf(mask)))
#define FIELD_FIT(mask, value) (!((((typeof(mask))(value)) << __bf_shf(mask)) & ~(mask)))
#define hweight64 __builtin_popcountll

static inline int fls(unsigned int word) { return word ? 32 - __builtin_clz(word) : 0; }

/* Numbers. */
#define min(a, b)                                                                                  \
    ({                                                                                             \
        typeof(a) first = (a);                                                                     \
        typeof(b) second = (b);                                                                    \
        first < second ? first : second;                                                           \
    })
#define max(a, b)                                                                                  \
    ({                                                                                             \
        typeof(a) first = (a);                                                                     \
        typeof(b) second = (b);                                                                    \
        first > second ? first : second;                                                           \
    })
#define round_up(value, to) ((((value) + (to) - 1) / (to)) * (to))
#define round_down(value, to) ((value) / (to) * (to))
#define IS_ALIGNED(value, to) (((value) & ((to) - 1)) == 0)
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define sizeof_field(type, member) sizeof(((type *)0)->member)
#define container_of(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))
#define cpu_to_le64(value) (value)
#define do_div(dividend, divisor)                                                                  \
    ({                                                                                             \
        u32 rest = (dividend) % (divisor);                                                         \
        (dividend) /= (divisor);                                                                   \
        rest;                                                                                      \
    })

/* Complaints. */
#define BUILD_BUG_ON(condition) ((condition) ? abort() : (void)0)
#define EXPORT_SYMBOL(name)
#define complain(...) fprintf(stderr, __VA_ARGS__)
#define pr_err complain
#define pr_warn complain
#define dev_warn_once(device, ...) ((void)(device))
#define WARN(condition, ...)                                                                       \
    ({                                                                                             \
        bool wrong = (condition);                                                                  \
        if (wrong)                                                                                 \
            complain(__VA_ARGS__);                                                                 \
        wrong;                                                                                     \
    })
#define WARN_ONCE WARN
#define WARN_ON(condition) WARN(condition, "warning: %s\n", #condition)
#define WARN_ON_ONCE WARN_ON

/* Memory. */
#define kzalloc(bytes, flags) calloc(1, bytes)
#define kcalloc(count, bytes, flags) calloc(count, bytes)
#define kvmalloc_array(count, bytes, flags) calloc(count, bytes)
#define kfree free
#define kvfree free
#define ERR_PTR(error) ((void *)(intptr_t)(error))

static inline void *kmemdup(const void *from, size_t bytes, int flags)
{
    (void)flags;
    return memcpy(malloc(bytes), from, bytes);
}

/* Lists in a ring. */
struct list_head {
    struct list_head *next, *prev;
};

#define list_entry container_of
#define list_first_entry(head, type, member) list_entry((head)->next, type, member)
#define list_last_entry(head, type, member) list_entry((head)->prev, type, member)
#define list_next_entry(at, member) list_entry((at)->member.next, typeof(*(at)), member)
#define list_prev_entry(at, member) list_entry((at)->member.prev, typeof(*(at)), member)
#define list_for_each_entry(at, head, member)                                                      \
    for (at = list_first_entry(head, typeof(*at), member); &at->member != (head);                  \
         at = list_next_entry(at, member))

static inline bool list_is_last(const struct list_head *at, const struct list_head *head)
{
    return at->next == head;
}

static inline void list_add_tail(struct list_head *at, struct list_head *head)
{
    at->prev = head->prev;
    at->next = head;
    head->prev->next = at;
    head->prev = at;
}

struct rhashtable {
    int unused;
};
struct rhash_head {
    int unused;
};
struct rhashtable_params;

/* eBPF. */
#define BPF_ALU 0x04
#define BPF_LDST_BYTES(insn)                                                                       \
    ({                                                                                             \
        u8 size = BPF_SIZE((insn)->code);                                                          \
        size == BPF_W ? 4 : size == BPF_H ? 2 : size == BPF_B ? 1 : 8;                             \
    })
#define BPF_REG_SIZE 8
#define MAX_CALL_FRAMES 8

struct bpf_map {
    u32 id, value_size;
};
struct bpf_offloaded_map {
    struct bpf_map map;
    void *dev_priv;
};

static inline struct bpf_offloaded_map *map_to_offmap(struct bpf_map *map)
{
    return container_of(map, struct bpf_offloaded_map, map);
}

static inline bool bpf_map_offload_neutral(struct bpf_map *map)
{
    (void)map;
    return true;
}

/* Numbers as the firmware knows them. */
enum bpf_reg_type {
    NOT_INIT,
    SCALAR_VALUE,
    PTR_TO_CTX,
    CONST_PTR_TO_MAP,
    PTR_TO_MAP_VALUE,
    PTR_TO_STACK = 6,
    PTR_TO_PACKET = 8,
    PTR_TO_PACKET_END,
};

struct tnum {
    u64 value, mask;
};

static inline bool tnum_is_const(struct tnum number) { return !number.mask; }

static inline void tnum_strn(char *text, size_t bytes, struct tnum number)
{
    snprintf(text, bytes, "%#llx/%#llx", (long long)number.value, (long long)number.mask);
}

struct bpf_reg_state {
    enum bpf_reg_type type;
    s32 off;
    u32 id, frameno;
    struct tnum var_off;
    u64 umin_value, umax_value;
    struct bpf_map *map_ptr;
};

enum bpf_stack_slot_type { STACK_INVALID, STACK_SPILL, STACK_MISC, STACK_ZERO };

struct bpf_stack_state {
    u8 slot_type[BPF_REG_SIZE];
};

struct bpf_func_state {
    struct bpf_reg_state regs[11];
    struct bpf_stack_state stack[64];
};

struct bpf_verifier_state {
    struct bpf_func_state *frame[MAX_CALL_FRAMES];
    u32 curframe;
};

struct net_device;
struct bpf_prog_offload {
    void *dev_priv;
    struct net_device *netdev;
};
struct bpf_prog_aux {
    struct bpf_prog_offload *offload;
};
struct bpf_prog {
    struct bpf_prog_aux *aux;
};
struct bpf_subprog_info {
    u16 stack_depth;
};
struct bpf_insn_aux_data {
    bool zext_dst;
    u32 orig_idx;
};
struct bpf_verifier_env {
    struct bpf_prog *prog;
    struct bpf_verifier_state *cur_state;
    struct bpf_insn_aux_data *insn_aux_data;
    struct bpf_subprog_info *subprog_info;
    u32 subprog_cnt;
};

static inline struct bpf_reg_state *cur_regs(struct bpf_verifier_env *env)
{
    return env->cur_state->frame[env->cur_state->curframe]->regs;
}

#define bpf_verifier_log_write(env, ...) ((void)(env), complain(__VA_ARGS__))

/* The device. */
struct device {
    int unused;
};
struct pci_dev {
    struct device dev;
};
struct nfp_pf {
    struct pci_dev *pdev;
};
struct nfp_app {
    struct nfp_pf *pf;
};
struct nfp_ccm {
    int unused;
};
struct nfp_ccm_hdr {
    int unused;
};
struct sk_buff;
struct nfp_net {
    u8 stack_64;
};

static inline void *netdev_priv(struct net_device *device) { return device; }

#define nn_readb(net, where) ((net)->stack_64)
#define NFP_NET_RXR_MAX 64
