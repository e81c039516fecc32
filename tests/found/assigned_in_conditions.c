/* Pointers that get their value inside a condition, where the place is known and the truth is
 * clear: the value still has to be set. Generated program 1000125 found it. */
#include <nicforge.h>

struct item {
    uint16_t key;
    uint16_t sum;
};

static uint32_t words[5] = {3, 1, 4, 1, 5};
static uint32_t others[4];
static struct item items[6];

static uint32_t *choose(uint32_t *a, uint32_t *b, uint32_t n, uint32_t of)
{
    if (n > 1 && a[1] < b[0])
        return (of & 1) ? &a[n - 1] : b;
    return n > 2 ? a : b;
}

static struct item *item_of(uint32_t key) { return &items[key % 6]; }

static uint32_t nulls(uint32_t n)
{
    uint32_t *p;
    if ((p = choose(words, words, 3, n)) == NULL)
        return 1;
    *p += n;
    if (NULL != (p = &words[n % 5]))
        *p ^= 2;
    if (!(p = words + (n + 1) % 5))
        return 2;
    *p += 5;
    return *p;
}

static uint32_t truths(uint32_t n)
{
    struct item *item;
    if ((item = item_of(n)))
        item->sum += 3;
    uint32_t found = (item = &items[(n + 1) % 6]) && item->sum > 2;
    if (!(item = item_of(n + found)) || item->key == 7)
        return 4;
    item->key++;
    uint32_t *at = words;
    uint32_t i = 0;
    while ((at = &words[i]) && *at && i < 4)
        i++;
    found += at == &words[4];
    for (i = 0; (at = others + i) != NULL && i < 3; i++)
        *at += i;
    return item->key + item->sum + found + i + *at;
}

static uint32_t ends(uint32_t n)
{
    uint32_t *p = words;
    uint32_t *q = others;
    uint32_t sum = 0;
    if (++p)
        sum += *p;
    if (!p++)
        sum += 100;
    sum += *p;
    if ((p += n & 1) == (q += n & 3))
        sum += 1000;
    *q += sum;
    sum += (p = &words[n % 5], 1) ? *p : 0;
    uint32_t trips = 0;
    do
        sum += *p;
    while ((p = &words[sum % 5]) != q && *p != 0 && ++trips < 4);
    return sum + (--q != NULL ? 1 : 2) + (*q & 7);
}

void net_recv(nf_pkt pkt)
{
    struct {
        uint8_t of[16];
    } head;
    if (!nf_extract(pkt, &head)) {
        nf_drop(pkt);
        return;
    }
    uint32_t n = head.of[0] + nf_len(pkt);
    uint32_t sum = nulls(n) + truths(n) * 3;
    if ((n & 3) != 0)
        sum += ends(n | 1);
    head.of[1] = (uint8_t)sum;
    head.of[2] = (uint8_t)(sum >> 8);
    for (uint32_t i = 0; i < 5; i++)
        head.of[3 + i] = (uint8_t)words[i];
    for (uint32_t i = 0; i < 6; i++)
        head.of[8 + i] = (uint8_t)(items[i].key + items[i].sum);
    head.of[14] = (uint8_t)others[n & 3];
    nf_emit(pkt, &head);
    nf_send(pkt, sum & 1);
}
