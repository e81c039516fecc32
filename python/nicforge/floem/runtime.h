/* What C of Floem's modules finds: bodies of elements, tests, and files beside the module. */
#pragma once
#include <arpa/inet.h>
#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Names that DPDK had up to 18.11. */
#define ether_hdr rte_ether_hdr
#define ether_addr rte_ether_addr
#define ipv4_hdr rte_ipv4_hdr
#define udp_hdr rte_udp_hdr
#define tcp_hdr rte_tcp_hdr
#define arp_hdr rte_arp_hdr
#define d_addr dst_addr
#define s_addr src_addr
#define arp_hrd arp_hardware
#define arp_pro arp_protocol
#define arp_hln arp_hlen
#define arp_pln arp_plen
#define arp_op arp_opcode
#define ETHER_TYPE_IPv4 RTE_ETHER_TYPE_IPV4
#define ETHER_TYPE_ARP RTE_ETHER_TYPE_ARP
#define ARP_HRD_ETHER RTE_ARP_HRD_ETHER
#define ARP_OP_REQUEST RTE_ARP_OP_REQUEST
#define ARP_OP_REPLY RTE_ARP_OP_REPLY
#ifdef FLOEM_DPDK
#include <rte_ether.h>
#include <rte_memcpy.h>
#include <rte_spinlock.h>
typedef rte_spinlock_t spinlock_t;
#define spinlock_init(lock) rte_spinlock_init(lock)
#define spinlock_lock(lock) rte_spinlock_lock(lock)
#define spinlock_unlock(lock) rte_spinlock_unlock(lock)
#else
#if __has_include(<rte_memcpy.h>)
#include <rte_memcpy.h>
#else
#define rte_memcpy memcpy
#endif
typedef struct {
    volatile int locked;
} spinlock_t;
#define spinlock_init(lock) ((lock)->locked = 0)
#define spinlock_lock(lock)                                                                        \
    while (__sync_lock_test_and_set(&(lock)->locked, 1))                                           \
        ;
#define spinlock_unlock(lock) __sync_lock_release(&(lock)->locked)
#endif

/* Functions that tests call. */
void init(char *argv[]);
void run_threads(void);
void kill_threads(void);
void finalize_and_check(void);
void out(int x);

/* What is printed goes to a file, and who sleeps waits for segments to run. */
FILE *floem_out(void);
int floem_sleep(long rounds);
_Noreturn void floem_exit(int code);
#define printf(...) fprintf(floem_out(), __VA_ARGS__)
#define puts(text) fprintf(floem_out(), "%s\n", text)
#define pause() floem_sleep(-1)
#define sleep(seconds) floem_sleep(64 + 0 * (long)(seconds))
#define usleep(us) floem_sleep(16 + 0 * (long)(us))
#define exit(code) floem_exit(code)

/* Words of Floem's run-time. */
enum { FLAG_OWN = 1, FLAG_CLEAN = 2, FLAG_INUSE = 4 };
typedef struct {
    void *entry;
    int qid;
} q_buffer;
typedef struct {
    uint8_t flag, task;
    uint16_t len;
    uint8_t checksum, pad;
} __attribute__((packed)) q_entry;
typedef struct citem citem;
typedef spinlock_t lock_t;
#define qlock_init(lock) spinlock_init(lock)
#define qlock_lock(lock) spinlock_lock(lock)
#define qlock_unlock(lock) spinlock_unlock(lock)
#define __SYNC __sync_synchronize()
#define __sync_fetch_and_add32(at, by) __sync_fetch_and_add(at, by)
#define __sync_fetch_and_add64(at, by) __sync_fetch_and_add(at, by)
#define __sync_fetch_and_sub32(at, by) __sync_fetch_and_sub(at, by)
#define __sync_fetch_and_sub64(at, by) __sync_fetch_and_sub(at, by)
#define __sync_bool_compare_and_swap32(at, old, new) __sync_bool_compare_and_swap(at, old, new)
#define __sync_bool_compare_and_swap64(at, old, new) __sync_bool_compare_and_swap(at, old, new)
#define htonp(x) __builtin_bswap64(x)
#define ntohp(x) __builtin_bswap64(x)
#define nic_htons(x) (x)
#define nic_ntohs(x) (x)
#define nic_htonl(x) (x)
#define nic_ntohl(x) (x)
#define nic_htonp(x) (x)
#define nic_ntohp(x) (x)
#define CVMX_SHARED
#define CVMX_CACHE_LINE_ALIGNED
#define shared_mm_malloc(size) malloc(size)
#define shared_mm_free(p) free(p)
/* The core of the segment that runs. */
unsigned floem_core(void);
#define cvmx_get_core_num() floem_core()
static inline uint64_t core_time_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}
static inline uint64_t core_time_now_us(void) { return core_time_now_ns() / 1000; }

/* Packets as addresses: the next frame that is given, and frames that are sent. */
void floem_from_net(size_t *size, void **packet, void **buffer);
void floem_to_net(size_t size, const void *packet);

/* Entries of queues. `taken` counts entries that were got, `released` who gave theirs back. */
struct floem_entry {
    struct floem_entry *next;
    int state, channel;
    _Alignas(16) unsigned char bytes[];
};
enum floem_entry_state { FLOEM_RESERVED, FLOEM_FULL, FLOEM_TAKEN, FLOEM_RELEASED };
struct floem_queue {
    struct floem_entry *first, *last, *take;
    uint32_t size, count;
};
bool floem_full(const struct floem_queue *queue);
void *floem_reserve(struct floem_queue *queue, size_t size, int channel);
void *floem_get(struct floem_queue *queue);
struct floem_entry *floem_clean(struct floem_queue *queue);
static inline struct floem_entry *floem_entry_of(void *bytes)
{
    return (struct floem_entry *)((char *)bytes - offsetof(struct floem_entry, bytes));
}

/* Entries of caches, found by the bytes of their keys. */
struct floem_kept {
    struct floem_kept *next;
    size_t length;
    uint64_t value_length;
    void *key, *values[4];
};
struct floem_cache {
    struct floem_kept *row[1 << 15];
    uint32_t count;
};
struct floem_kept *floem_find(struct floem_cache *cache, const void *key, size_t length);
struct floem_kept *floem_keep(struct floem_cache *cache, const void *key, size_t length);
void floem_forget(struct floem_cache *cache, const void *key, size_t length);
void *floem_copy(const void *bytes, size_t size);

/* Between the program and these bodies: floem_frame.h. */
#include "floem_frame.h"
uint64_t floem_function(uint32_t function, uint32_t count, const uint64_t *values);
void floem_output(struct floem_frame *frame, uint32_t port, uint64_t at, const uint64_t *values,
                  uint32_t count);
void floem_block(void);
void floem_start(int count, char **words);
