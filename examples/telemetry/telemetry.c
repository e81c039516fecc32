/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * telemetry: tells a collector behind port 1 of each IPv4 packet that passes, up to 32 of them in a
 * frame. A frame leaves when it is full, or by a timer when its first record has waited for a
 * millisecond.
 */
#include <nicforge.h>

#define RECORDS 32
#define COLLECTOR 1
#define DEADLINE 1000000ull
/* For local experiments (IEEE 802). */
#define ETHERTYPE 0x88b5

struct record {
    nf_be32 src, dst;
    nf_be16 length;
    uint8_t protocol, port;
    uint32_t microseconds;
};

struct batch {
    uint32_t records;
    uint64_t since;
};

NF_BUF_TABLE(array, batches, uint32_t, struct batch, 1, 526);

static inline void flush(void)
{
    nf_buf_send(&batches, 0, COLLECTOR);
    nf_update(&batches, 0, (struct batch){0});
}

NF_TIMER(NF_US(100))
void deadline(void)
{
    struct batch batch;
    nf_lookup(&batches, 0, &batch);
    if (batch.records && nf_now() - batch.since >= DEADLINE)
        flush();
}

static inline void note(struct nf_ipv4 ip, uint32_t port)
{
    struct batch batch;
    nf_lookup(&batches, 0, &batch);
    if (!batch.records) {
        struct nf_eth head = {{{2, 0, 0, 0, 0, 9}}, {{2, 0, 0, 0, 0, 1}}, NF_HTONS(ETHERTYPE)};
        nf_buf_append(&batches, 0, head);
        batch.since = nf_now();
    }
    struct record record = {ip.src, ip.dst, ip.length, ip.protocol, port, nf_now() / 1000};
    nf_buf_append(&batches, 0, record);
    batch.records++;
    nf_update(&batches, 0, batch);
    if (batch.records == RECORDS)
        flush();
}

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    if (nf_extract(pkt, &eth) && eth.type == NF_HTONS(NF_ETH_IPV4) && nf_extract(pkt, &ip))
        note(ip, nf_port(pkt));
    nf_reset(pkt);
    nf_send(pkt, 1 - (nf_port(pkt) & 1));
}
