// test: lower
// Every table operation; integer keys keep their type in spite of C's promotions; commutative updates of members.
#include <nicforge.h>

struct stat {
    uint64_t packets;
    uint32_t sizes[4];
    struct {
        uint16_t least;
        uint16_t most;
    } port;
};

NF_MAX_REPLICAS(4)
NF_TABLE(hash, stats, struct nf_flow, struct stat, 1024);
NF_TABLE(hash, ports, uint8_t, uint16_t, 256);
NF_TABLE(lpm, routes, nf_be32, uint32_t, 64);
NF_BY_NUMBER
NF_SHARED
NF_TABLE(array, totals, uint32_t, uint64_t, 8);
NF_BUF_TABLE(hash, messages, uint32_t, uint32_t, 16, 4096);

NF_UNORDERED
NF_ON(nic)
void net_recv(nf_pkt pkt)
{
    struct nf_flow flow = { .protocol = NF_IP_UDP };
    nf_load(pkt, 26, &flow.src);
    uint16_t port = 0;
    uint32_t hop, partial;
    if (!nf_lookup(&ports, flow.protocol, &port) || nf_contains(&ports, 7))
        nf_update(&ports, flow.protocol, port + 1 & 0xff);
    nf_lookup(&routes, flow.src, &hop);
    nf_add_value(&routes, flow.dst, 1);
    nf_lookup_bits(&routes, flow.dst, port & 31, &hop);
    nf_add(&stats, flow, packets, 1);
    nf_max(&stats, flow, sizes[2], nf_len(pkt));
    nf_min(&stats, flow, port.least, port);
    nf_or_value(&totals, port & 7, 1);
    if (nf_buf_len(&messages, hop) > 100 && nf_buf_read(&messages, hop, 0, &partial)) {
        nf_buf_append(&messages, hop, partial);
        nf_buf_send(&messages, hop, 1);
        nf_buf_clear(&messages, hop);
    }
    if (nf_buf_append_pkt(&messages, hop, pkt, nf_len(pkt)))
        nf_buf_to_host(&messages, hop);
    nf_delete(&stats, flow);
    nf_pass(pkt);
}
