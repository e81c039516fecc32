// Sends UDP datagrams back to where they came from, and counts the cycles that takes.
//
//   nicforge spin run examples/spin/udp_echo.c --match udp:7 --tap spin0 --address 10.9.0.1/24
//
// -DDO_HOST=true: a program on the host sees the datagram in between and may change it.
// Counters: 0 cycles of the handler, 1 cycles of the host's part, 2 cycles of reading the cycle
// counter.
#include "pspin.h"
#include <handler.h>
#include <packets.h>
#include <spin_dma.h>
#include <spin_host.h>

#ifndef DO_HOST
#define DO_HOST false
#endif

enum { WHOLE, HOST, CLOCK };

static inline void turn_around(pkt_hdr_t *header)
{
    mac_addr_t mac = header->eth_hdr.dest;
    uint32_t address = header->ip_hdr.dest_id;
    uint16_t port = header->udp_hdr.dst_port;

    header->eth_hdr.dest = header->eth_hdr.src;
    header->eth_hdr.src = mac;
    header->ip_hdr.dest_id = header->ip_hdr.source_id;
    header->ip_hdr.source_id = address;
    header->udp_hdr.dst_port = header->udp_hdr.src_port;
    header->udp_hdr.src_port = port;
}

__handler__ void echo_ph(handler_args_t *args)
{
    uint32_t began = cycles();
    task_t *task = args->task;
    uint32_t size = (uint32_t)task->pkt_mem_size;
    spin_cmd_t command;

    // Addresses and ports only change places, so no checksum changes.
    turn_around((pkt_hdr_t *)task->pkt_mem);
    if (DO_HOST && fpspin_check_host_mem(args)) {
        uint32_t packet = (uint32_t)(uintptr_t)task->pkt_mem;
        spin_dma_to_host(HOST_PLD_ADDR(args), packet, size, false, &command);
        spin_cmd_wait(command);
        uint32_t asked = cycles();
        size = fpspin_host_req(args, size).len;
        push_counter(&__host_data.counters[HOST], cycles() - asked);
        spin_dma_from_host(HOST_PLD_ADDR(args), packet, size, false, &command);
        spin_cmd_wait(command);
    }
    spin_send_packet(task->pkt_mem, size, &command);
    spin_cmd_wait(command);

    uint32_t ended = cycles(), again = cycles();
    push_counter(&__host_data.counters[WHOLE], ended - began);
    push_counter(&__host_data.counters[CLOCK], again - ended);
}

void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **handler_mem_ptr)
{
    volatile handler_fn handlers[] = {NULL, echo_ph, NULL};

    *hh = handlers[0];
    *ph = handlers[1];
    *th = handlers[2];
    *handler_mem_ptr = NULL;
}
