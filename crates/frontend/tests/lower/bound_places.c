// test: lower
// Loops that count inside other expressions, by different ways, in members, and by limits in memory; and what is known behind them.
#include <nicforge.h>

struct state {
    uint8_t tags;
    uint16_t sum;
    struct {
        uint32_t used : 3;
        uint32_t rest : 29;
    } room;
};

/* The counter moves inside an expression; the loop is left early. Behind it the counter is at most 2. */
static uint32_t tags(nf_pkt pkt)
{
    struct nf_vlan v[2];
    struct nf_vlan tag;
    uint32_t count = 0;
    nf_be16 type = NF_HTONS(NF_ETH_VLAN);
    while (count < 2 && type == NF_HTONS(NF_ETH_VLAN)) {
        if (!nf_extract(pkt, &tag))
            return 0;
        v[count] = tag;
        type = v[count++].type;
    }
    for (uint32_t i = 0; i < count; i++)
        nf_emit(pkt, &v[i]);
    return count;
}

/* Every way adds something, some more than others. */
static uint32_t ways(nf_pkt pkt)
{
    uint32_t at = 0, sum = 0;
    while (at < 12) {
        uint8_t kind;
        if (!nf_load(pkt, at, &kind) || kind == 0)
            break;
        if (kind == 1) {
            at++;
            continue;
        }
        if (kind < 4)
            at += 2;
        else
            at += 4;
        sum += kind;
    }
    for (uint32_t i = 0; i < at; i++)
        sum++;
    return sum;
}

/* Members count, and limit, while other members change. */
static uint32_t members(nf_pkt pkt)
{
    struct state st = {};
    while (st.tags < 5) {
        st.sum += nf_len(pkt);
        if (st.sum > 100)
            break;
        st.tags++;
    }
    for (int i = 0; i < st.tags; i++)
        st.sum++;
    for (st.room.used = 0; st.room.used < 6; st.room.used += 2)
        st.room.rest += st.room.used;
    if (st.tags < 1)
        return 0;
    do {
        st.tags--;
    } while (st.tags > 0 && st.sum++ < 1000);
    return st.sum + st.room.rest;
}

void net_recv(nf_pkt pkt)
{
    uint32_t sum = tags(pkt) + ways(pkt);
    sum += members(pkt);
    nf_send(pkt, sum & 1);
}
