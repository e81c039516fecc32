/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * small_tables: every packet is counted under its key in tables of 16 entries, which a network
 * processor keeps in a CAM, and in larger ones, and leaves with what it found before and after its
 * own update.
 */
#include <nicforge.h>

NF_PORTS(1);

struct head {
    uint32_t key;
    uint32_t deletes;
};

struct count {
    uint32_t packets;
    uint64_t sum;
};

struct answer {
    uint32_t few;
    uint32_t recent;
    uint32_t many;
    uint32_t latest;
    uint32_t again;
    uint8_t hits;
    uint8_t stored;
};

NF_TABLE(hash, few, uint32_t, struct count, 16);
NF_TABLE(lru, recent, uint32_t, struct count, 16);
NF_TABLE(hash, many, uint32_t, struct count, 8192);
NF_TABLE(lru, latest, uint32_t, struct count, 1000);

void net_recv(nf_pkt pkt)
{
    struct head head;
    struct answer answer = {0};
    struct count a, b, c, d, again;

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "no key");
        return;
    }
    uint32_t key = head.key;
    if (head.deletes) {
        nf_delete(&few, key);
        nf_delete(&many, key);
    }
    answer.hits = (uint8_t)(nf_lookup(&few, key, &a) + 2 * nf_lookup(&recent, key, &b) +
                            4 * nf_lookup(&many, key, &c) + 8 * nf_lookup(&latest, key, &d));
    a.packets++;
    b.packets++;
    c.packets++;
    d.packets++;
    a.sum += key;
    answer.stored = (uint8_t)(nf_update(&few, key, a) + 2 * nf_update(&recent, key, b) +
                              4 * nf_update(&many, key, c) + 8 * nf_update(&latest, key, d));
    if (nf_lookup(&few, key, &again))
        answer.again = again.packets;
    answer.few = a.packets;
    answer.recent = b.packets;
    answer.many = c.packets;
    answer.latest = d.packets;
    nf_emit(pkt, &answer);
    nf_send(pkt, 0);
}
