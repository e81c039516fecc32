// Receives files over SLMP: payload goes straight to host memory, wanted acknowledgements go back
// from the NIC.
//
// Programs: host/slmp_host.c receives files, host/slmp_send.c sends them.
//
// A packet may come twice or out of order: its bytes are written where they belong each time. What
// was received is known from acknowledgements alone, so a sender that lost one sends again. The
// last packet is acknowledged by the tail handler, when the host has taken the message, so that the
// next one does not overwrite it. Messages with even and odd numbers have a half of the memory
// each: a packet that was held up on its way does no harm to the message behind its own.
#include "pspin.h"
#include <handler.h>
#include <packets.h>
#include <spin_dma.h>
#include <spin_host.h>

static inline slmp_pkt_hdr_t *header_of(handler_args_t *args)
{
    return (slmp_pkt_hdr_t *)args->task->pkt_mem;
}

// Turns the packet into its acknowledgement, in place, and sends it.
static void acknowledge(handler_args_t *args)
{
    slmp_pkt_hdr_t *header = header_of(args);
    mac_addr_t mac = header->eth_hdr.dest;
    uint32_t address = header->ip_hdr.dest_id;
    uint16_t port = header->udp_hdr.dst_port;
    spin_cmd_t command;

    header->eth_hdr.dest = header->eth_hdr.src;
    header->eth_hdr.src = mac;
    header->ip_hdr.dest_id = header->ip_hdr.source_id;
    header->ip_hdr.source_id = address;
    header->udp_hdr.dst_port = header->udp_hdr.src_port;
    header->udp_hdr.src_port = port;
    header->slmp_hdr.flags = htons(MKACK);
    header->udp_hdr.length = htons(sizeof(udp_hdr_t) + sizeof(slmp_hdr_t));
    header->udp_hdr.checksum = 0;
    header->ip_hdr.length = htons(sizeof(ip_hdr_t) + sizeof(udp_hdr_t) + sizeof(slmp_hdr_t));
    header->ip_hdr.checksum = 0;
    header->ip_hdr.checksum = ip_checksum(&header->ip_hdr, sizeof(ip_hdr_t));
    spin_send_packet(header, sizeof(slmp_pkt_hdr_t), &command);
    spin_cmd_wait(command);
}

__handler__ void slmp_ph(handler_args_t *args)
{
    slmp_pkt_hdr_t *header = header_of(args);
    uint32_t offset = ntohl(header->slmp_hdr.pkt_off);
    uint32_t length = (uint32_t)SLMP_PAYLOAD_LEN(header);
    uint32_t pages = CORE_COUNT * PAGE_SIZE, room = (args->task->host_mem_size - pages) / 2;
    uint64_t host = HOST_ADDR(args) + pages + (ntohl(header->slmp_hdr.msg_id) & 1) * room;
    spin_cmd_t command;

    // A length that the frame does not have, or a place outside the host's memory, is nobody's
    // payload.
    if (!fpspin_check_host_mem(args) ||
        length > args->task->pkt_mem_size - sizeof(slmp_pkt_hdr_t) ||
        (uint64_t)offset + length > room)
        return;
    uint8_t *payload = (uint8_t *)header + sizeof(slmp_pkt_hdr_t);
    spin_dma_to_host(host + offset, (uint32_t)(uintptr_t)payload, length, false, &command);
    // An acknowledgement says that the bytes are in host memory; the last packet's, that the host
    // has taken them all.
    spin_cmd_wait(command);
    if (SYN(ntohs(header->slmp_hdr.flags)) && !EOM(ntohs(header->slmp_hdr.flags)))
        acknowledge(args);
}

__handler__ void slmp_th(handler_args_t *args)
{
    slmp_pkt_hdr_t *header = header_of(args);
    uint32_t slmp = (uint32_t)(uintptr_t)&header->slmp_hdr;
    spin_cmd_t command;

    if (!EOM(ntohs(header->slmp_hdr.flags)) || !fpspin_check_host_mem(args))
        return;
    // The host tells messages apart by what is in its page.
    spin_dma_to_host(HOST_PLD_ADDR(args), slmp, sizeof(slmp_hdr_t), false, &command);
    spin_cmd_wait(command);
    fpspin_host_req(args, ntohl(header->slmp_hdr.pkt_off) + (uint32_t)SLMP_PAYLOAD_LEN(header));
    acknowledge(args);
}

void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **handler_mem_ptr)
{
    volatile handler_fn handlers[] = {NULL, slmp_ph, slmp_th};

    *hh = handlers[0];
    *ph = handlers[1];
    *th = handlers[2];
    *handler_mem_ptr = NULL;
}
