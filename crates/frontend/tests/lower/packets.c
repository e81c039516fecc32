// test: lower
// Packet functions, events to and from the host, hashes, checksums, logging.
#include <nicforge.h>

struct message {
    uint32_t kind;
    uint32_t port;
};

NF_PORTS(4);

void host_send(struct message message)
{
    nf_log("kind {} port {}", message.kind, (uint8_t)message.port);
    message.kind++;
    nf_host_msg(message);
}

void net_recv(nf_pkt pkt)
{
    struct nf_ipv4 ip;
    uint16_t word = 7;
    if (!nf_strip(pkt, sizeof(struct nf_eth)) || !nf_trim(pkt, 1500) || !nf_extract(pkt, &ip)) {
        nf_reset(pkt);
        nf_to_host(pkt);
        return;
    }
    nf_store(pkt, 2, &word);
    ip.csum = 0;
    uint32_t sum = nf_csum_add(0, ip);
    sum = nf_csum_payload(pkt, sum, 8);
    ip.csum = nf_csum_fold(sum);
    uint32_t lane = nf_hash(1, ip.src) ^ nf_hash(2, word) ^ nf_random() ^ (uint32_t)nf_now();
    struct nf_fib_query query = { .family = 4, .src = { ip.src }, .dst = { ip.dst }, .port = nf_port(pkt) };
    struct nf_fib_answer answer;
    if (NF_LIKELY(0.75, nf_fib_lookup(&query, &answer)))
        lane = answer.port;
    nf_dma_write(pkt, 0x1000, 64);
    nf_emit(pkt, &ip);
    if (__builtin_expect(lane == 3, 0)) {
        nf_drop(pkt, "lane \"3\"");
        return;
    }
    nf_send(pkt, lane & 3);
}
