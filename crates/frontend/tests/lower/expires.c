// test: lower
#include <nicforge.h>
struct record {
    uint32_t packets;
    uint64_t last;
};
NF_TABLE(hash, flows, uint32_t, struct record, 64);

static void gone(uint32_t flow, struct record record)
{
    nf_host_msg(record);
    nf_log("{} is idle", flow);
}
NF_EXPIRES(flows, last, NF_SEC(30), gone)

void net_recv(nf_pkt pkt)
{
    __typeof__(nf_len(pkt)) length = nf_len(pkt);
    const typeof(uint16_t) step = 3;
    typeof(nf_be16) type = nf_htons(step);
    struct record record = {length, nf_now()};
    if (type == nf_htons(3))
        nf_update(&flows, length, record);
    nf_drop(pkt);
}
