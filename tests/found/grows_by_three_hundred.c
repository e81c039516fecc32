// More headers than a core of a sPIN NIC kept room for in front of a frame, 256 bytes: the packet
// was gone. Seed 552264.
#include <nicforge.h>

struct s0 {
    uint32_t m0[5];
};

void net_recv(nf_pkt pkt)
{
    struct s0 v0 = {{1, 2, 3, 4, 5}};
    for (uint32_t i0 = 0; i0 < 16; i0 += 1)
        nf_emit(pkt, &v0);
    nf_send(pkt, 0);
}
