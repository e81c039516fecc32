// A store of keys and values of eight bytes each in the NIC's memory, asked over UDP.
//
//   nicforge spin run examples/spin/kv_lookup.c --match udp:9332 --tap spin0 --address 10.9.0.1/24
//
// A request is one byte (1 get, 2 put, 3 delete), the key and, for put, the value; the answer is
// one byte (0 done, 1 no such key, 2 full, 3 not understood) and 16 bytes: key and value. Packets
// are handled side by side: every bucket has a lock.
#include "pspin.h"
#include <handler.h>
#include <packets.h>
#include <spin_dma.h>
#include <spin_host.h>

enum { GET = 1, PUT, DELETE };
enum { DONE, ABSENT, FULL, WRONG };

#define BUCKETS 1024
#define WAYS 4

typedef struct {
    uint32_t key[2], value[2];
    uint32_t used;
} entry_t;

typedef struct {
    spin_lock_t lock;
    entry_t entries[WAYS];
} bucket_t;

typedef struct {
    uint8_t code;
    uint32_t key[2], value[2];
} __attribute__((__packed__)) request_t;

typedef struct {
    pkt_hdr_t headers;
    request_t request;
} __attribute__((__packed__)) packet_t;

static uint32_t place_of(const uint32_t key[2])
{
    // The multiplier is 2^32 over the golden ratio: all bits of the key move the highest ones.
    return ((key[0] ^ key[1] * 0x85ebca6b) * 0x9e3779b1) >> 22;
}

static entry_t *find(bucket_t *bucket, const uint32_t key[2])
{
    for (int way = 0; way < WAYS; way++) {
        entry_t *entry = &bucket->entries[way];
        if (entry->used && entry->key[0] == key[0] && entry->key[1] == key[1])
            return entry;
    }
    return NULL;
}

static uint8_t serve(bucket_t *bucket, uint8_t what, const uint32_t key[2], uint32_t value[2])
{
    entry_t *entry = find(bucket, key);

    for (int way = 0; what == PUT && !entry && way < WAYS; way++)
        if (!bucket->entries[way].used)
            entry = &bucket->entries[way];
    if (!entry)
        return what == PUT ? FULL : ABSENT;
    if (what == PUT) {
        *entry = (entry_t){{key[0], key[1]}, {value[0], value[1]}, 1};
    } else {
        value[0] = entry->value[0];
        value[1] = entry->value[1];
        entry->used = what != DELETE;
    }
    return DONE;
}

__handler__ void kv_ph(handler_args_t *args)
{
    task_t *task = args->task;
    packet_t *packet = (packet_t *)task->pkt_mem;
    request_t *request = &packet->request;
    uint32_t length = ntohs(packet->headers.udp_hdr.length);
    spin_cmd_t command;

    if (task->pkt_mem_size <= sizeof(pkt_hdr_t) ||
        task->handler_mem_size < BUCKETS * sizeof(bucket_t))
        return;
    if (length < sizeof(udp_hdr_t) + sizeof(request_t) || task->pkt_mem_size < sizeof(packet_t) ||
        request->code < GET || request->code > DELETE) {
        request->code = WRONG;
    } else {
        uint32_t key[2] = {request->key[0], request->key[1]},
                 value[2] = {request->value[0], request->value[1]};
        bucket_t *bucket = (bucket_t *)task->handler_mem + place_of(key);
        spin_lock_lock(&bucket->lock);
        request->code = serve(bucket, request->code, key, value);
        spin_lock_unlock(&bucket->lock);
        request->value[0] = value[0];
        request->value[1] = value[1];
    }
    mac_addr_t mac = packet->headers.eth_hdr.dest;
    uint32_t address = packet->headers.ip_hdr.dest_id;
    uint16_t port = packet->headers.udp_hdr.dst_port;
    packet->headers.eth_hdr.dest = packet->headers.eth_hdr.src;
    packet->headers.eth_hdr.src = mac;
    packet->headers.ip_hdr.dest_id = packet->headers.ip_hdr.source_id;
    packet->headers.ip_hdr.source_id = address;
    packet->headers.udp_hdr.dst_port = packet->headers.udp_hdr.src_port;
    packet->headers.udp_hdr.src_port = port;
    // The payload is another one now; zero is no checksum (RFC 768).
    packet->headers.udp_hdr.checksum = 0;
    spin_send_packet(packet, (uint32_t)task->pkt_mem_size, &command);
    spin_cmd_wait(command);
}

void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **handler_mem_ptr)
{
    volatile handler_fn handlers[] = {NULL, kv_ph, NULL};

    *hh = handlers[0];
    *ph = handlers[1];
    *th = handlers[2];
    *handler_mem_ptr = NULL;
}
