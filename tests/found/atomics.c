/* Atomic operations on what packets share and on locals: each is a read and a write, and its value
 * is the old one or the new one. `volatile` says nothing. */
#include <nicforge.h>
#include <stdatomic.h>

struct counters {
    uint64_t packets;
    uint16_t small;
    int8_t tiny;
};

static struct counters counters[4];
static _Atomic uint32_t shared = 9;
static atomic_bool flag;
static volatile uint32_t control = 3;
static int64_t least = 5;

struct head {
    uint8_t a, b;
    uint16_t c;
    uint32_t d;
} __attribute__((packed));

struct out {
    uint64_t v[10];
} __attribute__((packed));

static uint32_t bump(volatile uint16_t *small, uint16_t by)
{
    return __sync_fetch_and_xor(small, by) + *small;
}

void net_recv(nf_pkt pkt)
{
    struct head h;
    struct out out = {};
    volatile uint32_t local = 1;

    if (!nf_extract(pkt, &h)) {
        nf_drop(pkt, "short");
        return;
    }
    struct counters *mine = &counters[h.a & 3];
    __sync_fetch_and_add(&mine->packets, h.d);
    out.v[0] = __sync_add_and_fetch(&mine->packets, 1);
    out.v[1] = bump(&mine->small, h.c);
    out.v[2] = (uint8_t)__atomic_fetch_nand(&mine->tiny, h.b, __ATOMIC_SEQ_CST);
    out.v[3] = atomic_fetch_or(&shared, h.a) - atomic_load_explicit(&shared, memory_order_relaxed);
    shared += h.b;
    shared--;
    uint32_t expected = h.a & 1 ? shared : h.d;
    out.v[4] = atomic_compare_exchange_strong(&shared, &expected, h.d);
    out.v[5] = expected + atomic_exchange(&flag, h.b & 1);
    out.v[6] = (uint64_t)__atomic_fetch_min(&least, (int64_t)(int32_t)h.d, __ATOMIC_RELAXED);
    out.v[7] = (uint64_t)__atomic_max_fetch(&least, (int8_t)h.b, __ATOMIC_RELAXED);
    control = control + local;
    local = control;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    uint32_t next = h.c;
    __atomic_exchange(&control, &next, &expected, __ATOMIC_SEQ_CST);
    out.v[6] ^= __atomic_compare_exchange(&control, &next, &expected, 0, __ATOMIC_SEQ_CST, 0);
    __atomic_load(&control, &next, __ATOMIC_SEQ_CST);
    __atomic_store(&control, &expected, __ATOMIC_SEQ_CST);
    out.v[7] += next;
    out.v[8] = local + __sync_val_compare_and_swap(&mine->small, h.c, h.b) + flag;
    __atomic_store_n(&mine->small, h.c ^ mine->small, __ATOMIC_RELEASE);
    __sync_fetch_and_sub(&mine->tiny, 3);
    out.v[9] = __sync_bool_compare_and_swap(&local, control, 8) + local + (uint8_t)mine->tiny;
    nf_emit(pkt, &out);
    nf_send(pkt, out.v[4] & 1);
}
