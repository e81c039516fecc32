/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * ciphers: every cipher and digest, with each length of key, and what is refused.
 *
 * Lacked by: xdp agilio-cx u280
 */
#include <nicforge.h>

NF_PORTS(2);

struct head {
    uint8_t key[32], iv[16], length;
};
struct made {
    uint8_t tag[16], digest[32], mac[32];
    uint32_t sum;
    bool cut, opened, forged;
} __attribute__((packed));

struct half {
    uint8_t bytes[16];
};
struct most {
    uint8_t bytes[24];
};
struct nonce {
    uint8_t bytes[12];
};

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct half half;
    struct most most;
    struct nonce nonce;
    struct made made = {0};
    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "no key");
        return;
    }
    memcpy(&half, &head.key, 16);
    memcpy(&most, &head.key, 24);
    memcpy(&nonce, &head.iv, 12);
    nf_sha256(pkt, head.length, &made.digest);
    nf_hmac_sha256(pkt, head.length, &head, &made.mac);
    made.sum = nf_crc32(pkt, 1000);
    nf_aes_ctr(pkt, head.length, &half, &head.iv);
    nf_aes_ctr(pkt, head.length, &most, &head.iv);
    nf_aes_ctr(pkt, head.length, &head.key, &head.iv);
    made.cut = nf_aes_cbc_encrypt(pkt, head.length, &most, &head.iv);
    nf_aes_cbc_encrypt(pkt, 32, &head.key, &head.iv);
    nf_aes_cbc_decrypt(pkt, 16, &half, &head.iv);
    nf_aes_gcm_seal(pkt, head.length, &most, &nonce, &head.length, &made.tag);
    if ((head.length & 1) != 0)
        made.forged = nf_aes_gcm_open(pkt, 1000, &most, &nonce, &head, &made.tag);
    else
        made.opened = nf_aes_gcm_open(pkt, head.length, &most, &nonce, &head.length, &made.tag);
    nf_emit(pkt, &made);
    nf_send(pkt, 1);
}
