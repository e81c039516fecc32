/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * aes_tunnel: frames of the local network (port 0) go through UDP over the underlay (port 1),
 * encrypted and authenticated by AES-GCM in the manner of ESP (RFC 4303, RFC 4106), with the tag in
 * front. Replayed ones are dropped.
 */
#include <nicforge.h>

NF_PORTS(2);

struct sealed {
    nf_be32 spi, seq;
};
struct tag {
    uint8_t bytes[16];
};
struct peer {
    uint8_t key[16];
    nf_be32 salt, spi, here, there;
    nf_mac own, hop;
};
struct origin {
    uint8_t key[16];
    nf_be32 salt;
};
struct nonce {
    nf_be32 salt, spi, seq;
};
struct window {
    uint64_t seen; /* bit i: the one i before the latest */
    uint32_t latest;
};

NF_TABLE(hash, peers, nf_mac, struct peer, 1024);
NF_TABLE(hash, origins, nf_be32, struct origin, 1024);
NF_TABLE(hash, sent, nf_be32, uint32_t, 1024);
NF_TABLE(hash, windows, nf_be32, struct window, 1024);

/* Queues, since a target may have ciphers elsewhere than where packets come in. */
void seal(nf_pkt pkt);
void unseal(nf_pkt pkt);

void net_recv(nf_pkt pkt)
{
    if (nf_port(pkt) == 0)
        nf_enqueue(seal, pkt);
    else
        nf_enqueue(unseal, pkt);
}

void seal(nf_pkt pkt)
{
    struct nf_eth inner;
    struct peer to;
    struct tag tag;
    uint32_t seq;
    if (!nf_extract(pkt, &inner) || !nf_lookup(&peers, inner.dst, &to)) {
        nf_drop(pkt, "no tunnel leads there");
        return;
    }
    nf_lookup(&sent, to.spi, &seq);
    seq++;
    nf_update(&sent, to.spi, seq);
    nf_reset(pkt);
    struct sealed head = {to.spi, nf_htonl(seq)};
    struct nonce nonce = {to.salt, head.spi, head.seq};
    uint16_t len = (uint16_t)(sizeof(struct nf_udp) + sizeof(head) + sizeof(tag) + nf_len(pkt));
    nf_aes_gcm_seal(pkt, nf_len(pkt), &to.key, &nonce, &head, &tag);
    struct nf_eth eth = {to.hop, to.own, NF_HTONS(NF_ETH_IPV4)};
    struct nf_ipv4 ip = {.version = 4, .ihl = 5, .ttl = 64, .protocol = NF_IP_UDP};
    ip.length = nf_htons(sizeof(ip) + len);
    ip.src = to.here;
    ip.dst = to.there;
    ip.csum = nf_csum_fold(nf_csum_add(0, ip));
    struct nf_udp udp = {NF_HTONS(4500), NF_HTONS(4500), nf_htons(len), 0};
    nf_emit(pkt, &eth);
    nf_emit(pkt, &ip);
    nf_emit(pkt, &udp);
    nf_emit(pkt, &head);
    nf_emit(pkt, &tag);
    nf_send(pkt, 1);
}

void unseal(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    struct nf_udp udp;
    struct sealed head;
    struct tag tag;
    struct origin from;
    struct window window;
    if (!nf_extract(pkt, &eth) || eth.type != nf_htons(NF_ETH_IPV4) || !nf_extract(pkt, &ip) ||
        ip.ihl != 5 || ip.protocol != NF_IP_UDP || !nf_extract(pkt, &udp) ||
        udp.dport != nf_htons(4500) || !nf_extract(pkt, &head) || !nf_extract(pkt, &tag)) {
        nf_drop(pkt, "no sealed frame");
        return;
    }
    if (!nf_lookup(&origins, head.spi, &from)) {
        nf_drop(pkt, "unknown SPI");
        return;
    }
    nf_lookup(&windows, head.spi, &window);
    uint32_t seq = nf_ntohl(head.seq), back = window.latest - seq;
    if (seq == 0 || (seq <= window.latest && (back > 63 || (window.seen >> back & 1) != 0))) {
        nf_drop(pkt, "replayed");
        return;
    }
    struct nonce nonce = {from.salt, head.spi, head.seq};
    if (!nf_aes_gcm_open(pkt, nf_len(pkt), &from.key, &nonce, &head, &tag)) {
        nf_drop(pkt, "not authentic");
        return;
    }
    if (seq > window.latest) {
        back = seq - window.latest;
        window.seen = back > 63 ? 0 : window.seen << back;
        window.latest = seq;
        back = 0;
    }
    window.seen |= 1ull << back;
    nf_update(&windows, head.spi, window);
    nf_send(pkt, 0);
}
