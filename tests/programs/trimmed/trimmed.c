/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * trimmed: rests cut to less than a frame can have while headers wait to be put in front of them:
 * plainly, to a length that the packet says, on one of two ways, in a loop, and with the cursor set
 * back afterwards.
 */
#include <nicforge.h>

NF_PORTS(2);

struct head {
    uint8_t kind;
    uint8_t keep;
};

struct large {
    uint8_t bytes[64];
};

struct ten {
    uint8_t bytes[10];
};

NF_TABLE(array, counts, uint32_t, uint64_t, 8);

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct large large = {{1, 2, 3}};
    struct ten ten;
    uint8_t kind;

    if (!nf_load(pkt, 0, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    kind = head.kind & 7;
    if (kind == 0) {
        nf_emit(pkt, &large);
        nf_trim(pkt, 8);
    } else if (kind == 1) {
        nf_extract(pkt, &head);
        nf_emit(pkt, &head);
        nf_trim(pkt, head.keep);
        nf_emit(pkt, &large);
    } else if (kind == 2) {
        if (nf_extract(pkt, &ten) && head.keep & 1) {
            nf_trim(pkt, 3);
            nf_emit(pkt, &ten);
        }
        nf_emit(pkt, &large);
        nf_extract(pkt, &head);
    } else if (kind == 3) {
        for (uint32_t i = 0; i < 5; i++) {
            nf_extract(pkt, &head);
            nf_trim(pkt, 8 - i);
            nf_emit(pkt, &head);
        }
        nf_emit(pkt, &large);
    } else if (kind == 4) {
        nf_extract(pkt, &ten);
        nf_trim(pkt, 2);
        nf_reset(pkt);
        nf_emit(pkt, &large);
        nf_extract(pkt, &head);
        nf_emit(pkt, &head);
    } else if (kind == 5) {
        for (uint32_t i = 0; i < 4; i++) {
            nf_extract(pkt, &ten);
            if (i == 2)
                nf_reset(pkt);
            nf_trim(pkt, 9);
        }
        nf_reset(pkt);
        nf_emit(pkt, &large);
        nf_extract(pkt, &ten);
        nf_emit(pkt, &ten);
    } else if (kind == 6) {
        nf_trim(pkt, 0);
        nf_emit(pkt, &large);
        nf_emit(pkt, &head);
    }
    nf_add_value(&counts, kind, 1);
    nf_send(pkt, 1);
}
