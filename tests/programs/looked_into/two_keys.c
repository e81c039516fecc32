/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * two_keys: a packet reads bytes of a string behind others that it has appended under another key, which may be the
 * same one: no pipe.
 */
#include <nicforge.h>

NF_PORTS(2);

struct head {
    uint8_t key;
    uint8_t other;
};

NF_BUF_TABLE(hash, kept, uint8_t, uint32_t, 24, 300);

void net_recv(nf_pkt pkt)
{
    struct head head;
    uint8_t byte = 0;

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    nf_buf_append(&kept, head.key, head);
    nf_buf_read(&kept, head.other, 0, &byte);
    nf_send(pkt, byte & 1);
}
