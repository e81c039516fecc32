/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * copied: a packet goes into two byte strings of one table, which may be the same one; what is in
 * the first of them then may leave, and entries come and go.
 */
#include <nicforge.h>

NF_PORTS(2);

struct head {
    uint8_t how, one, other, skipped;
    nf_be16 bytes, more;
};

struct told {
    uint32_t one, other, count;
    uint8_t made, appended, again, there;
};

NF_BUF_TABLE(hash, kept, uint8_t, uint32_t, 24, 700);

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct told told = {0};
    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    uint32_t count;
    nf_lookup(&kept, head.one, &count);
    told.made = nf_update(&kept, head.one, count + 1);
    if (head.how & 1)
        nf_buf_clear(&kept, head.one);
    told.appended = nf_buf_append_pkt(&kept, head.one, pkt, nf_ntohs(head.bytes));
    told.one = nf_buf_len(&kept, head.one);
    if (told.one > 400)
        nf_buf_to_host(&kept, head.one);
    if (head.how & 2)
        nf_delete(&kept, head.one);
    told.there = nf_lookup(&kept, head.other, &told.count);
    if (head.how & 4)
        nf_update(&kept, head.other, told.count + 2);
    told.again = nf_buf_append_pkt(&kept, head.other, pkt, nf_ntohs(head.more));
    told.other = nf_buf_len(&kept, head.other);
    if (head.how & 8)
        nf_buf_to_host(&kept, head.other);
    if (head.how & 16)
        nf_delete(&kept, head.other);
    nf_host_msg(told);
    nf_send(pkt, head.how >> 7);
}
