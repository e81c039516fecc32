// Entries whose keys differ only in bits that their mask or prefix leaves out are one entry: the
// one written last stays. Tables of RISC-V images kept two.
#include <nicforge.h>
struct wide {
    uint16_t part[3];
};
NF_TABLE(ternary, masks, uint8_t, struct wide, 55);
NF_TABLE(ternary, pairs, uint16_t, uint8_t, 60);
NF_TABLE(lpm, prefixes, uint8_t, uint32_t, 50);
void net_recv(nf_pkt pkt) { nf_send(pkt, 0); }
