/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * strings: pieces of byte strings compared.
 */
#include <nicforge.h>
NF_PORTS(2);
struct in {
    uint8_t eth[14];
    uint8_t id;
    uint8_t length;
} __attribute__((packed));
struct chunk {
    uint8_t b[100];
};
NF_BUF_TABLE(hash, lines, uint8_t, uint32_t, 32, 1000);
void net_recv(nf_pkt pkt)
{
    struct in in;
    struct chunk c, d;
    uint32_t sum = 0;
    if (!nf_extract(pkt, &in)) {
        nf_drop(pkt, "short");
        return;
    }
    if (!nf_contains(&lines, in.id & 15))
        nf_update(&lines, in.id & 15, 0);
    if (!nf_buf_append_pkt(&lines, in.id & 15, pkt, in.length))
        nf_buf_clear(&lines, in.id & 15);
    if (nf_buf_read(&lines, in.id & 15, in.length, &c) && nf_buf_read(&lines, in.id & 15, 0, &d))
        for (uint32_t i = 0; i < 100; i++) {
            if (c.b[i] == d.b[99 - i])
                sum += i;
            if (c.b[i] > 250)
                break;
        }
    nf_emit(pkt, &sum);
    nf_emit(pkt, &in);
    nf_send(pkt, 1);
}
