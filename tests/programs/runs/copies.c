/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Bytes from array to array, also within one array, and arrays that are cleared. Events carry
 * arrays.
 */
#include <nicforge.h>

NF_PORTS(1);

struct asked {
    uint8_t count;
    uint8_t from;
    uint8_t value[30];
};

struct moved {
    uint8_t lead[3];
    uint8_t a[30];
    uint32_t between;
    uint8_t b[21];
};

void second(nf_pkt pkt, struct moved moved, uint32_t count);

void net_recv(nf_pkt pkt)
{
    struct asked asked;
    if (!nf_extract(pkt, &asked)) {
        nf_drop(pkt, "short");
        return;
    }
    struct moved moved = {0};
    uint32_t count = asked.count;
    for (uint32_t i = 0; i < 30 && i < count; i++)
        moved.a[i] = asked.value[i];
    for (int8_t i = 0; i < 21; i++)
        moved.b[i] = asked.value[i + 9];
    /* Down within one array: every byte is read before it is written. */
    for (uint32_t i = 0; i < 20; i++)
        moved.a[i] = moved.a[i + 5];
    /* Up by less than the loop has trips: the first bytes repeat. */
    for (uint32_t i = 0; i < 12; i++)
        moved.b[i + 4] = moved.b[i];
    /* Up by more. */
    for (uint32_t i = 0; i < 10; i++)
        moved.a[i + 15] = moved.a[i];
    nf_enqueue(second, pkt, moved, count);
}

void second(nf_pkt pkt, struct moved moved, uint32_t count)
{
    struct moved other = moved;
    for (uint32_t i = 0; i < 21; i++) {
        if (i >= count)
            break;
        other.b[i] = 0;
    }
    for (uint16_t i = 7; i < 29; i++)
        other.a[i] = 0xa5;
    for (uint32_t i = 0; i < 21; i++)
        other.a[i] = moved.b[20 - i];
    for (uint32_t i = 0; i < 21; i++)
        moved.b[i] = other.a[i] + 1;
    nf_emit(pkt, &moved);
    nf_emit(pkt, &other);
    nf_send(pkt, 0);
}
