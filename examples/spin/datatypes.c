// Unpacks MPI datatypes: packets of packed data arrive over SLMP in any order, and every run of
// bytes goes to its place in host memory.
//
// The map of the datatype (typemap.h) is in the handlers' memory; host/mpi_types.c makes it from a
// committed type. A packet's first byte is looked up by its offset in the packed data, from the
// root down: a division for each loop, a binary search for each list. So no state is kept between
// packets, and packets may be lost, sent again and handled side by side. Every message has its own
// buffer, and what is left on its way of messages before the map was made has none.
#include "pspin.h"
#include <handler.h>
#include <packets.h>
#include <spin_dma.h>
#include <spin_host.h>

#include "typemap.h"

static inline slmp_pkt_hdr_t *header_of(handler_args_t *args)
{
    return (slmp_pkt_hdr_t *)args->task->pkt_mem;
}

static void acknowledge(slmp_pkt_hdr_t *header)
{
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

// The run at an offset of the packed data: bytes from there to its end, and where the first of them
// goes.
static uint32_t find_run(const struct typemap *map, uint32_t offset, int32_t *place)
{
    const uint8_t *base = (const uint8_t *)map;
    const struct typemap_node *node = (const struct typemap_node *)(base + map->root);
    int32_t displacement = 0;

    while (node->kind != TYPEMAP_RUN) {
        if (node->kind == TYPEMAP_LOOP) {
            const struct typemap_node *child = (const struct typemap_node *)(base + node->child);
            uint32_t turn = offset / child->size;
            offset -= turn * child->size;
            displacement += (int32_t)turn * node->stride;
            node = child;
        } else {
            const struct typemap_entry *entries =
                (const struct typemap_entry *)(base + node->child);
            uint32_t low = 0, high = node->count;
            while (high - low > 1) {
                uint32_t middle = (low + high) / 2;
                if (entries[middle].start <= offset)
                    low = middle;
                else
                    high = middle;
            }
            offset -= entries[low].start;
            displacement += entries[low].displacement;
            node = (const struct typemap_node *)(base + entries[low].child);
        }
    }
    *place = displacement + (int32_t)offset;
    return node->size - offset;
}

__handler__ void datatypes_ph(handler_args_t *args)
{
    task_t *task = args->task;
    slmp_pkt_hdr_t *header = header_of(args);
    const struct typemap *map = (const struct typemap *)task->handler_mem;
    uint32_t offset = ntohl(header->slmp_hdr.pkt_off);
    uint32_t length = (uint32_t)SLMP_PAYLOAD_LEN(header);
    // As the NIC reads it: the first byte of the field counts least.
    uint32_t message = header->slmp_hdr.msg_id - map->first;
    uint64_t host = HOST_ADDR(args) + CORE_COUNT * PAGE_SIZE;
    spin_cmd_t command = 0;
    bool any = false;

    if (length > task->pkt_mem_size - sizeof(slmp_pkt_hdr_t) || map->magic != TYPEMAP_MAGIC ||
        message >= map->count || !fpspin_check_host_mem(args))
        return;
    uint32_t size = ((const struct typemap_node *)((const uint8_t *)map + map->root))->size;
    if (offset > size || length > size - offset)
        return;
    uint32_t payload = (uint32_t)(uintptr_t)header + sizeof(slmp_pkt_hdr_t);
    host += (uint64_t)message * map->buffer;
    while (length > 0) {
        int32_t place;
        uint32_t run = MIN(find_run(map, offset, &place), length);
        spin_dma_to_host(host + (uint64_t)(int64_t)place, payload, run, false, &command);
        any = true;
        payload += run;
        offset += run;
        length -= run;
    }
    // Transfers end in the order in which they began. The last packet is acknowledged when the host
    // has taken the message.
    if (any)
        spin_cmd_wait(command);
    if (SYN(ntohs(header->slmp_hdr.flags)) && !EOM(ntohs(header->slmp_hdr.flags)))
        acknowledge(header);
}

__handler__ void datatypes_th(handler_args_t *args)
{
    slmp_pkt_hdr_t *header = header_of(args);
    uint32_t slmp = (uint32_t)(uintptr_t)&header->slmp_hdr;
    spin_cmd_t command;

    if (!EOM(ntohs(header->slmp_hdr.flags)) || !fpspin_check_host_mem(args))
        return;
    spin_dma_to_host(HOST_PLD_ADDR(args), slmp, sizeof(slmp_hdr_t), false, &command);
    spin_cmd_wait(command);
    fpspin_host_req(args, ntohl(header->slmp_hdr.pkt_off) + (uint32_t)SLMP_PAYLOAD_LEN(header));
    acknowledge(header);
}

void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **handler_mem_ptr)
{
    volatile handler_fn handlers[] = {NULL, datatypes_ph, datatypes_th};

    *hh = handlers[0];
    *ph = handlers[1];
    *th = handlers[2];
    *handler_mem_ptr = NULL;
}
