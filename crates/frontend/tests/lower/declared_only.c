// test: lower
// What nobody uses may have types that values cannot have, as in headers of systems.
#include <nicforge.h>

struct open {
    int length;
    unsigned char data[];
};

extern const struct open first;
extern struct open *next(struct open *one);

static inline struct open *twice(struct open *one)
{
    return next(next(one));
}

void net_recv(nf_pkt pkt)
{
    nf_send(pkt, 0);
}
