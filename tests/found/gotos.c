/* `goto` forward: out of ifs, loops and switches, to several labels, over declarations, as
 * `continue`, and in functions. */
#include <nicforge.h>

struct head {
    uint32_t a;
    uint16_t b;
    uint8_t c[6];
    uint32_t sum;
} __attribute__((packed));

NF_TABLE(hash, seen, uint32_t, uint32_t, 64);

static uint32_t checked(uint32_t a, uint32_t b)
{
    uint32_t result = 1;
    if (a > b)
        goto fail;
    result = a + b;
    if ((result & 7) == 3)
        goto fail_late;
    return result * 3;
fail_late:
    result += 100;
fail:
    return result;
}

static uint32_t scan(const uint8_t *bytes, uint32_t stop)
{
    uint32_t found = 0;
    uint32_t i = 0;
    for (i = 0; i < 6; i++) {
        if (bytes[i] & 1)
            goto next;
        if (bytes[i] == (stop & 0xfe))
            goto done;
        found += bytes[i];
    next:
        found++;
    }
    found += 1000;
done:
    return found * 8 + i;
}

static uint32_t until(uint32_t from)
{
    uint32_t n = 0;
    while (n < 20) {
        uint32_t k;
        for (k = 0; k < 5; k++) {
            if (((from >> k) & 3) == (n & 3) && k > 2)
                goto out;
            if (from == k)
                break;
        }
        n++;
        if (k & 1)
            n++;
    }
out:
    return n;
}

void net_recv(nf_pkt pkt)
{
    struct head h;
    uint32_t kind;
    if (!nf_extract(pkt, &h))
        goto drop;
    kind = h.b & 7;
    uint32_t late = h.a & 0xff;
    switch (kind) {
    case 0:
        goto drop;
    case 1:
        late += 5;
        break;
    case 2:
        if (h.a & 1)
            goto out;
        late += 7;
        break;
    case 3: {
        uint32_t was;
        if (!nf_lookup(&seen, h.a & 15, &was))
            goto learn;
        late += was;
        break;
    }
    default:
        late ^= 3;
    }
    if (late == 9)
        goto out;
    uint32_t more = checked(late, h.b);
    late += more;
    goto out;
learn:
    late += 50;
    if (nf_update(&seen, h.a & 15, late))
        goto out;
    late += 1;
out:
    h.sum = late + scan(h.c, h.a) + until(h.a) * 65536;
    nf_emit(pkt, &h);
    nf_send(pkt, 0);
    return;
drop:
    nf_drop(pkt, "no");
    if (0)
        goto another2;
another2:;
}
