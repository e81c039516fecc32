/* The entry of an array whose byte string left is as it was at first, whatever lies behind the
 * string's end. */
#include <nicforge.h>

struct value {
    uint32_t count;
};

NF_BUF_TABLE(array, strings, uint32_t, struct value, 50, 128);

void net_recv(nf_pkt pkt)
{
    nf_buf_append_pkt(&strings, 0, pkt, 7);
    nf_buf_to_host(&strings, 0);
    nf_send(pkt, 1);
}
