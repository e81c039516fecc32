// test: check
#include <nicforge.h>

struct item {
    uint32_t value;
};

void nobody(nf_pkt pkt);
void pointed(nf_pkt pkt, struct item *item);
void answers(uint32_t value);
void timer(uint32_t value);
static void later(uint32_t value) { nf_log("{}", value); }

void net_recv(nf_pkt pkt)
{
    struct item item = {1};
    nf_enqueue(answers, item.value);
    nf_enqueue(timer, 1);
    nf_enqueue(later, 2);
    later(3);
    if (item.value)
        nf_enqueue(pointed, pkt, &item);
    else
        nf_enqueue(nobody, pkt);
}

void pointed(nf_pkt pkt, struct item *item) { nf_drop(pkt, "x"); }
void answers(uint32_t value) { nf_log("{}", value); }
void timer(uint32_t value) { nf_log("{}", value); }
