/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Bytes of arrays and of the packet that are emitted or stored one by one.
 */
#include <nicforge.h>

NF_PORTS(1);

struct asked {
    uint8_t count;
    uint8_t from;
    uint8_t value[20];
};

void net_recv(nf_pkt pkt)
{
    struct asked asked;
    if (!nf_extract(pkt, &asked)) {
        nf_drop(pkt, "short");
        return;
    }
    uint32_t count = asked.count;
    nf_emit(pkt, &asked.count);
    for (uint32_t i = 0; i < 20; i++) {
        if (i >= count)
            break;
        nf_emit(pkt, &asked.value[i]);
    }
    for (uint32_t i = 0; i < 20 && i != count; i++)
        nf_emit(pkt, &asked.value[i]);
    for (int i = 3; i < 19; i++)
        nf_emit(pkt, &asked.value[i]);
    /* What the packet has, and a zero for what it has not. */
    for (uint32_t i = 0; i < 16; i++) {
        if (i >= count)
            break;
        uint8_t c;
        nf_load(pkt, asked.from + i, &c);
        nf_emit(pkt, &c);
    }
    /* Into the packet where it lies; a store behind its end does nothing. */
    for (uint8_t i = 0; i < 10; i++)
        nf_store(pkt, i + 1u, &asked.value[i + 4]);
    for (uint32_t i = 0; i < 20; i++) {
        if (i > count)
            break;
        if (!nf_store(pkt, asked.from + i, &asked.value[i]))
            break;
    }
    nf_send(pkt, 0);
}
