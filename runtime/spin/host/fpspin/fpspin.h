// FPsPIN's interface for host programs: put handlers on a sPIN NIC, say which packets they get,
// share memory with them, and send messages over SLMP.
//
// The NIC is a `nicforge spin run --device PATH`; programs find it at the path they name themselves
// or, first, at $NICFORGE_PSPIN.
#ifndef __FPSPIN_H__
#define __FPSPIN_H__

#include <arpa/inet.h>
#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "pspin_ioctl.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mac_addr {
    uint8_t data[6];
} __attribute__((__packed__)) mac_addr_t;

typedef struct eth_hdr {
    mac_addr_t dest;
    mac_addr_t src;
    uint16_t length; // EtherType
} __attribute__((__packed__)) eth_hdr_t;

typedef struct ip_hdr {
    uint8_t ihl : 4;
    uint8_t version : 4;
    uint8_t tos;
    uint16_t length;
    uint16_t identification;
    uint16_t offset;
    uint8_t ttl;
    uint8_t protocol;
    uint16_t checksum;
    uint32_t source_id;
    uint32_t dest_id;
} __attribute__((__packed__)) ip_hdr_t;

typedef struct udp_hdr {
    uint16_t src_port;
    uint16_t dst_port;
    uint16_t length;
    uint16_t checksum;
} __attribute__((__packed__)) udp_hdr_t;

typedef struct slmp_hdr {
    uint16_t flags;
    uint32_t msg_id;
    uint32_t pkt_off;
} __attribute__((__packed__)) slmp_hdr_t;

typedef struct slmp_pkt_hdr {
    eth_hdr_t eth_hdr;
    ip_hdr_t ip_hdr;
    udp_hdr_t udp_hdr;
    slmp_hdr_t slmp_hdr;
} __attribute__((__packed__)) slmp_pkt_hdr_t;

typedef struct pkt_hdr {
    eth_hdr_t eth_hdr;
    ip_hdr_t ip_hdr;
    udp_hdr_t udp_hdr;
} __attribute__((__packed__)) pkt_hdr_t;

#define MKEOM 0x8000
#define MKSYN 0x4000
#define MKACK 0x2000
#define EOM(flags) ((flags) & MKEOM)
#define SYN(flags) ((flags) & MKSYN)
#define ACK(flags) ((flags) & MKACK)

#define SLMP_PAYLOAD_SIZE 1462
#define SLMP_PORT 9330

#define DMA_BUS_WIDTH 512
#define DMA_ALIGN (DMA_BUS_WIDTH / 8)

typedef union {
    uint64_t data;
    struct {
        uint8_t dma_id;
        uint32_t len;
        uint16_t hpu_id;
    } __attribute__((__packed__));
} fpspin_flag_t;

#define NUM_HPUS 16
#define MAX_COUNTERS 16
#define PAGE_SIZE 4096
#define L2_END 0x1c100000UL
#define NUM_RULES_PER_RULESET 4
#define NUM_RULESETS 4
#ifndef __VERILATOR__
#define NUM_CLUSTERS 2
#endif
#define FPSPIN_HOSTDMA_PAGES_DEFAULT 16

typedef uint32_t fpspin_addr_t;

struct mem_area {
    fpspin_addr_t addr;
    uint32_t size;
};

struct perf_counter {
    uint32_t sum;
    uint32_t count;
};
typedef struct perf_counter fpspin_counter_t;

// The NIC's side of it, at a NIC address: never to be dereferenced here.
struct host_data {
    uint64_t flag[NUM_HPUS];
    struct perf_counter counters[MAX_COUNTERS];
};

typedef struct {
    int ctx_id;
    int fd;
    void *cpu_addr;
    size_t mmap_len;
    uint8_t dma_idx[NUM_HPUS];
    union {
        struct host_data *pspin_host_data;
        uint64_t host_data_ptr;
    };
    struct mem_area hh, ph, th, handler_mem;
    void *app_data;
} fpspin_ctx_t;

// A hit if start <= (word & mask) <= end, where word number idx of the frame is read in network
// order. Rules 0 to 2 choose packets, rule 3 says which is the last of a message.
struct fpspin_rule {
    int idx;
    uint32_t mask;
    uint32_t start;
    uint32_t end;
};

enum fpspin_mode { FPSPIN_MODE_AND = 0, FPSPIN_MODE_OR = 1 };

typedef struct {
    struct fpspin_rule r[NUM_RULES_PER_RULESET];
    enum fpspin_mode mode;
} fpspin_ruleset_t;

// clang-format off
#define FPSPIN_RULE_FALSE ((struct fpspin_rule){.idx = 0, .mask = 0, .start = 1, .end = 0})
#define FPSPIN_RULE_EMPTY ((struct fpspin_rule){.idx = 0, .mask = 0, .start = 0, .end = 0})
#define FPSPIN_RULE_IP ((struct fpspin_rule){.idx = 3, .mask = 0xffff0000, .start = 0x08000000, .end = 0x08000000})
#define FPSPIN_RULE_IP_PROTO(num) ((struct fpspin_rule){.idx = 5, .mask = 0xff, .start = (num), .end = (num)})
#define FPSPIN_RULE_UDP_SPORT(num) ((struct fpspin_rule){.idx = 8, .mask = 0xffff, .start = (num), .end = (num)})
#define FPSPIN_RULE_UDP_DPORT(num) ((struct fpspin_rule){.idx = 9, .mask = 0xffff0000, .start = (uint32_t)(num) << 16, .end = (uint32_t)(num) << 16})
// clang-format on

// Connects to the NIC, takes `hostdma_pages` pages of memory that handlers can reach, loads the
// image `img` as context `dest_ctx` and sets its rules. False, with a message, if a step fails; a
// device that cannot be opened ends the program.
bool fpspin_init(fpspin_ctx_t *ctx, const char *dev, const char *img, int dest_ctx,
                 const fpspin_ruleset_t *rs, int num_rs, int hostdma_pages);
void fpspin_exit(fpspin_ctx_t *ctx);
void fpspin_load(fpspin_ctx_t *ctx, const char *elf, uint64_t hostmem_ptr, uint32_t hostmem_size);
void fpspin_unload(fpspin_ctx_t *ctx);

// Rules of all contexts from 0 on; the others get no packets. Of one context.
void fpspin_prog_me(const fpspin_ruleset_t *rs, int num_rs);
void fpspin_set_me_ruleset(int ctx_id, const fpspin_ruleset_t *rs);
void fpspin_ruleset_bypass(fpspin_ruleset_t *rs);
void fpspin_ruleset_match(fpspin_ruleset_t *rs);
void fpspin_ruleset_udp(fpspin_ruleset_t *rs);
void fpspin_ruleset_slmp(fpspin_ruleset_t *rs);

// The request of a handler unit that has not been seen yet: what it wrote to its page, or NULL. Its
// answer.
volatile void *fpspin_pop_req(fpspin_ctx_t *ctx, int hpu_id, fpspin_flag_t *f);
void fpspin_push_resp(fpspin_ctx_t *ctx, int hpu_id, fpspin_flag_t flag);

// Counters that handlers add to. An average of nothing is NaN, or 0 as an integer.
void fpspin_clear_counter(fpspin_ctx_t *ctx, int id);
fpspin_counter_t fpspin_get_counter(fpspin_ctx_t *ctx, int id);
double fpspin_get_cycles(fpspin_ctx_t *ctx, int id);
uint32_t fpspin_get_avg_cycles(fpspin_ctx_t *ctx);

// Copies to the NIC's memory.
void fpspin_write_memory(fpspin_ctx_t *ctx, fpspin_addr_t pspin_addr, void *host_addr, size_t len);

// Kept and given back: there are no register files here.
void fpspin_set_regs_base(const char *base);
const char *fpspin_get_regs_base(void);

void hexdump(const volatile void *data, size_t size);

typedef struct {
    bool parallel;
    int wnd_sz;
    int align;
    int fc_us;
    int num_threads;
} slmp_sock_t;

// Messages over UDP: a window of unacknowledged packets (0: none are acknowledged but the first and
// last), payloads a multiple of `align`, a pause after each packet in microseconds, threads.
int slmp_socket(slmp_sock_t *sock, int wnd_sz, int align, int fc_us, int num_threads);
// 0: all arrived. -1: an error or no acknowledgement in time; -2: none for the first packet; -3:
// the first could not be sent. In time is one second for the first, two between others, or
// $NICFORGE_SLMP_SECONDS.
int slmp_sendmsg(slmp_sock_t *sock, in_addr_t server, int msgid, void *buf, size_t sz);
int slmp_close(slmp_sock_t *sock);

#ifdef __cplusplus
}
#endif

#endif
