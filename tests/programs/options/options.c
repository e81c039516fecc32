/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * options: a list of options is read one by one from the packet: a byte says which, the next one
 * how long it is. One is overwritten, one ends the packet, one tells the host, one shortens the
 * packet. And the first eighty bytes are looked through for one.
 */
#include <nicforge.h>

NF_PORTS(2);

struct option {
    uint8_t kind;
    uint8_t bytes;
};

struct told {
    uint16_t count;
    uint8_t at;
    uint8_t wrong;
    uint32_t sum;
};

void net_recv(nf_pkt pkt)
{
    struct option head, option;
    struct told told = {0, 255, 0, 0};
    uint8_t wanted;

    if (!nf_load(pkt, 1, &wanted)) {
        nf_drop(pkt, "too short");
        return;
    }
    for (uint32_t at = 2; at < 80; at++) {
        uint8_t here;
        if (!nf_load(pkt, at, &here))
            break;
        if (here == wanted) {
            told.at = at;
            break;
        }
    }
    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    for (uint32_t trip = 0; trip < 6; trip++) {
        uint8_t kind;
        if (!nf_load(pkt, 0, &kind) || kind == 0)
            break;
        if (kind == 1) {
            nf_strip(pkt, 1);
            continue;
        }
        if (!nf_extract(pkt, &option) || (option.bytes & 31) < 2) {
            told.wrong = 1;
            break;
        }
        option.bytes &= 31;
        told.count += option.bytes;
        if (kind == 3) {
            uint8_t mark = 0xee;
            nf_store(pkt, 0, &mark);
        }
        if (kind == 4 && head.kind & 1) {
            nf_drop(pkt, "option 4");
            return;
        }
        if (kind == 5 && trip == 2)
            nf_host_msg(told);
        if (!nf_strip(pkt, option.bytes - 2)) {
            told.wrong = 2;
            break;
        }
        if (kind == 2 && head.kind & 2)
            nf_trim(pkt, 40);
    }
    told.sum = nf_csum_payload(pkt, 0, 1000);
    nf_emit(pkt, &told);
    nf_send(pkt, head.kind & 1);
}
