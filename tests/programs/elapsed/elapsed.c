/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * elapsed: differences between a number of the packet and one of a table, both ways round, compared
 * in every way with a limit and with constants; the packet leaves with all of it in front. Numbers
 * that wrap around are the point.
 */
#include <nicforge.h>

NF_PORTS(1);

struct head {
    uint32_t key;
    uint32_t now;
    uint32_t limit;
};

struct answer {
    uint8_t since;
    uint8_t until;
    uint8_t fixed;
};

NF_TABLE(array, latest, uint32_t, uint32_t, 4);

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct answer answer = {0};

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "too short");
        return;
    }
    uint32_t now = head.now, limit = head.limit, last;
    nf_lookup(&latest, head.key & 3, &last);
    answer.since = (uint8_t)((now - last <= limit) | (now - last < limit) << 1 |
                             (now - last > limit) << 2 | (now - last >= limit) << 3 |
                             (limit <= now - last) << 4 | (limit < now - last) << 5 |
                             (limit > now - last) << 6 | (limit >= now - last) << 7);
    answer.until = (uint8_t)((last - now <= limit) | (last - now < limit) << 1 |
                             (last - now > limit) << 2 | (last - now >= limit) << 3 |
                             (limit <= last - now) << 4 | (limit < last - now) << 5 |
                             (limit > last - now) << 6 | (limit >= last - now) << 7);
    answer.fixed =
        (uint8_t)((now - last <= 5) | (last - now < 3) << 1 | (now - last > 0xfffffff0) << 2 |
                  (now - last >= 1) << 3 | (last - now < 1) << 4);
    if (answer.since & 1)
        nf_update(&latest, head.key & 3, now);
    nf_emit(pkt, &answer);
    nf_send(pkt, 0);
}
