// Answers ICMP echo requests (ping) in the NIC, or with the host's help.
//
//   nicforge spin run examples/spin/icmp_echo.c --match icmp --tap spin0 --address 10.9.0.1/24
//   ping 10.9.0.2
//
// -DDO_HOST=true: the packet goes to the host first, and what the host leaves in its page goes back
// out. -DWHOLE_CHECKSUM: the checksum is taken over all bytes again, as FPsPIN's example does,
// instead of being adjusted.
#include "pspin.h"
#include <handler.h>
#include <packets.h>
#include <spin_dma.h>
#include <spin_host.h>

#ifndef DO_HOST
#define DO_HOST false
#endif

#define ECHO_REQUEST 8
#define ECHO_REPLY 0

typedef struct {
    uint8_t type;
    uint8_t code;
    uint16_t checksum;
} __attribute__((__packed__)) icmp_hdr_t;

typedef struct {
    eth_hdr_t eth;
    ip_hdr_t ip;
    icmp_hdr_t icmp;
} __attribute__((__packed__)) echo_t;

static inline void answer(echo_t *echo, size_t size)
{
    mac_addr_t mac = echo->eth.dest;
    uint32_t address = echo->ip.dest_id;

    echo->eth.dest = echo->eth.src;
    echo->eth.src = mac;
    echo->ip.dest_id = echo->ip.source_id;
    echo->ip.source_id = address;
    echo->icmp.type = ECHO_REPLY;
#ifdef WHOLE_CHECKSUM
    // What Ethernet padded is not ICMP's. A length below its own header's would wrap and keep the
    // core busy for long
    // (`nicforge bound` tells).
    size_t whole = MIN(ntohs(echo->ip.length), size - sizeof(eth_hdr_t));
    size_t length = MAX(whole, sizeof(ip_hdr_t)) - sizeof(ip_hdr_t);
    echo->icmp.checksum = 0;
    echo->icmp.checksum = ip_checksum(&echo->icmp, length);
#else
    (void)size;
    // The first word got smaller by 0x0800 (RFC 1624): 8 in its first byte as it lies in memory.
    uint32_t sum = echo->icmp.checksum + ECHO_REQUEST;
    echo->icmp.checksum = (uint16_t)(sum + (sum >> 16));
#endif
}

__handler__ void echo_ph(handler_args_t *args)
{
    task_t *task = args->task;
    echo_t *echo = (echo_t *)task->pkt_mem;
    size_t size = task->pkt_mem_size;
    spin_cmd_t command;

    if (size < sizeof(echo_t) || echo->ip.ihl != 5 || echo->icmp.type != ECHO_REQUEST)
        return;
    if (DO_HOST && fpspin_check_host_mem(args)) {
        uint32_t packet = (uint32_t)(uintptr_t)task->pkt_mem;
        spin_dma_to_host(HOST_PLD_ADDR(args), packet, (uint32_t)size, false, &command);
        spin_cmd_wait(command);
        fpspin_flag_t flag = fpspin_host_req(args, (uint32_t)size);
        spin_dma_from_host(HOST_PLD_ADDR(args), packet, flag.len, false, &command);
        spin_cmd_wait(command);
        size = flag.len;
    } else {
        answer(echo, size);
    }
    spin_send_packet(task->pkt_mem, (uint32_t)size, &command);
    spin_cmd_wait(command);
}

void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **handler_mem_ptr)
{
    volatile handler_fn handlers[] = {NULL, echo_ph, NULL};

    *hh = handlers[0];
    *ph = handlers[1];
    *th = handlers[2];
    *handler_mem_ptr = NULL;
}
