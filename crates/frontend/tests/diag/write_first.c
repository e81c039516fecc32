// test: check
#include <nicforge.h>
struct flow { uint32_t src, dst; };
struct request { uint64_t key; uint32_t length; struct flow flow; uint8_t bytes[4]; };
NF_WRITE_FIRST(struct request, key)
NF_WRITE_FIRST(struct request, flow)
NF_WRITE_FIRST(struct request, bytes)
NF_TABLE(hash, flows, struct flow, uint64_t, 16);
void behind(nf_pkt pkt, struct request state);

static void use(nf_pkt pkt, struct request *state)
{
    nf_update(&flows, state->flow, state->key);
    nf_send(pkt, state->length & 1);
}

static void fill(nf_pkt pkt, struct request *state)
{
    state->flow.src = 1;
    if (nf_len(pkt) > 100)
        state->flow.dst = 2;
    for (int i = 0; i < 4; i++)
        state->bytes[i] = i;
    if (nf_len(pkt) == 60)
        state->key = 7;
    else
        state->key = state->length;
}

void net_recv(nf_pkt pkt)
{
    struct request state;
    fill(pkt, &state);
    nf_enqueue(behind, pkt, state);
}

void behind(nf_pkt pkt, struct request state)
{
    struct request other = state;
    if (nf_len(pkt) > 1000)
        other.flow = (struct flow){1, 2};
    use(pkt, &other);
    nf_log("{}", state.bytes[1]);
}
