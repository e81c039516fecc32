/* A comparison's result compared with what it can never be: a program may say so, and compilers may
 * warn of it. */
#include <nicforge.h>

NF_PORTS(2);

struct head {
    uint64_t wide;
    uint32_t n;
};

NF_TABLE(array, sums, uint32_t, uint64_t, 4);

void net_recv(nf_pkt pkt)
{
    struct head head;
    uint64_t sum = 0;

    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt, "short");
        return;
    }
    if ((int)((head.wide / 0xffff80c4cf338000ull) <= 0) <= 50462)
        sum += head.n;
    if ((uint32_t)(head.n > 7) < 3)
        sum += 5;
    if ((head.n == 2) == 9)
        sum += 11;
    if ((head.n & 1) != 4)
        sum ^= 3;
    nf_add_value(&sums, head.n & 3, sum);
    nf_send(pkt, sum & 1);
}
