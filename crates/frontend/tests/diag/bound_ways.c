// test: check
#include <nicforge.h>
/* Some way leaves the variable as it was, or does something else with it. */
struct state {
    uint8_t n;
    uint8_t m;
};
static void set(struct state *st) { st->n = 0; }
void net_recv(nf_pkt pkt)
{
    uint32_t i = 0, sum = 0;
    struct state st = {};
    while (i < 10) {
        if (nf_len(pkt) > sum++)
            i++;
    }
    while (i < 20) {
        sum += nf_len(pkt) > 3 && i++;
    }
    while (i < 30) {
        for (int j = 0; j < 3; j++)
            i++;
    }
    while (i < 40) {
        switch (nf_len(pkt)) {
        case 1:
            i++;
        }
    }
    while (st.n < 4) {
        st.n++;
        set(&st);
    }
    while (st.m < 4) {
        st.m++;
        st = (struct state){.n = st.n};
    }
    while (i < 50) {
        i += nf_len(pkt) > 3 ? 1 : 0;
        i += sum > 3 ? 2 : -1;
    }
    nf_send(pkt, sum);
}
