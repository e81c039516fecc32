// test: check
#include <nicforge.h>
extern char *name(uint32_t n);
extern uint32_t call(void (*f)(void));
extern uint32_t many(uint32_t n, ...);
extern double real(uint32_t n);
extern uint32_t two(uint32_t *a, const uint32_t *b);
uint32_t elsewhere(uint32_t n);

void net_recv(nf_pkt pkt)
{
    uint32_t v = 1;
    name(1);
    call(0);
    many(1, 2);
    real(1);
    two(&v, &v);
    two(&v + 1, &v);
    elsewhere(v);
    nf_drop(pkt);
}
