// Looks the addresses and ports of a packet up in a table in the handlers' memory, and copies the
// packets it has to the host.
#include <handler.h>
#include <packets.h>

// Words of the table: what is left of a key's hash, or 0.
#define ENTRIES 131072

#define MIX(a, b, c)                                                                               \
    do {                                                                                           \
        a -= b, a -= c, a ^= c >> 13;                                                              \
        b -= c, b -= a, b ^= a << 8;                                                               \
        c -= a, c -= b, c ^= b >> 13;                                                              \
        a -= b, a -= c, a ^= c >> 12;                                                              \
        b -= c, b -= a, b ^= a << 16;                                                              \
        c -= a, c -= b, c ^= b >> 5;                                                               \
        a -= b, a -= c, a ^= c >> 3;                                                               \
        b -= c, b -= a, b ^= a << 10;                                                              \
        c -= a, c -= b, c ^= b >> 15;                                                              \
    } while (0)

// Bob Jenkins' hash of 1996 of a key of three words.
static inline uint32_t hash(const uint32_t key[3])
{
    uint32_t a = 0x9e3779b9 + key[0], b = 0x9e3779b9 + key[1], c = 0xfeedbeef + key[2];

    MIX(a, b, c);
    c += 12;
    MIX(a, b, c);
    return c;
}

__handler__ void filtering_ph(handler_args_t *args)
{
    task_t *task = args->task;
    ip_hdr_t *ip = (ip_hdr_t *)task->pkt_mem;
    udp_hdr_t *udp = (udp_hdr_t *)((uint8_t *)task->pkt_mem + ip->ihl * 4);
    uint32_t key[3] = {ip->source_id, ip->dest_id, (uint32_t)udp->src_port << 16 | udp->dst_port};
    uint32_t hashed = hash(key);
    uint32_t entry = ((volatile uint32_t *)task->handler_mem)[FAST_MOD(hashed, ENTRIES)];

    if (entry != 0 && entry != hashed)
        return;
    uint64_t host = (uint64_t)task->host_mem_high << 32 | task->host_mem_low;
    spin_cmd_t command;
    spin_dma_to_host(host, (uint32_t)(uintptr_t)task->l2_pkt_mem, (uint32_t)task->pkt_mem_size,
                     true, &command);
}

void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **handler_mem_ptr)
{
    volatile handler_fn handlers[] = {NULL, filtering_ph, NULL};

    *hh = handlers[0];
    *ph = handlers[1];
    *th = handlers[2];
    *handler_mem_ptr = NULL;
}
