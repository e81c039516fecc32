// test: lower
/* Functions of C: what is behind `const` goes in, what is behind other pointers comes back. NF_PURE says that there is no state,
 * also of one that writes. */
#include <nicforge.h>

struct pair {
    uint32_t a, b;
};

extern uint32_t weigh(const struct pair *pair) __attribute__((pure));
NF_PURE extern void turn(struct pair *pair, uint8_t *bytes);
extern void count(struct pair *pair);

void net_recv(nf_pkt pkt)
{
    struct pair pair = {nf_len(pkt), 1};
    uint8_t bytes[4] = {0};
    turn(&pair, bytes);
    count(&pair);
    pair.a = weigh(&pair) + bytes[1];
    nf_emit(pkt, &pair);
    nf_send(pkt, 0);
}
