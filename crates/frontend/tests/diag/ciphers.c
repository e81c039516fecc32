// test: check
#include <nicforge.h>

struct key {
    uint8_t bytes[20];
};

void net_recv(nf_pkt pkt)
{
    struct key key = {0};
    uint8_t good[16] = {0}, iv[16] = {0}, nonce[16] = {0}, digest[20], tag[16];
    nf_aes_ctr(pkt, 16, &key, &iv);
    nf_aes_gcm_seal(pkt, 16, &good, &nonce, &iv, &tag);
    nf_sha256(pkt, 16, &digest);
    nf_sha256(pkt, 16, digest);
    nf_sha256(digest, 16, &iv);
    nf_send(pkt, 0);
}
