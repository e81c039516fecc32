/* What is emitted in an arm of an `if` is in a variable that gets another value where the arm ends,
 * before the packet leaves. */
#include <nicforge.h>
struct s0 {
    int32_t m0;
};
NF_TABLE(array, t0, uint32_t, struct s0, 4);
void net_recv(nf_pkt pkt)
{
    int64_t v0 = 0;
    if (!nf_extract(pkt, &v0)) {
        struct s0 v2;
        if (nf_lookup(&t0, ((uint32_t)((nf_csum_payload(pkt, 0, 20)) & 15)), &v2)) {
            nf_emit(pkt, &v0);
            v0 = 1;
        }
        if (0 == ((((0 | v0) * 1) != 0) ? 0 : 1)) {
            nf_pass(pkt);
            return;
        }
    }
    nf_drop(pkt);
}
