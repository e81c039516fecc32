/* Variables outside functions that are structs with long arrays, which have tables of their own:
 * read and written by element, through pointers, whole, and with first values. */
#include <nicforge.h>

struct slot {
    uint32_t key;
    uint16_t len;
    uint8_t used : 1;
    uint8_t age : 7;
};

struct ring {
    uint8_t head : 5;
    uint8_t full : 1;
    uint16_t tail;
    struct slot slots[20];
    uint32_t drops;
};

struct bucket {
    uint32_t sum;
    uint16_t of[48];
    uint8_t mac[6];
};

struct inner {
    uint64_t total;
    uint32_t counts[5][8];
};

struct state {
    struct inner rx, tx;
    uint8_t seen[128];
    uint32_t words[32];
    char name[80];
};

union block {
    uint8_t bytes[128];
    uint32_t words[32];
};

struct box {
    uint32_t n;
    union block block;
    struct {
        uint16_t of[40];
    } in;
};

static struct box box;
static union block block;
static struct ring ring;
static struct ring backup = {.head = 3, .slots = {[2] = {.key = 7, .age = 5}}, .drops = 9};
static struct bucket buckets[4];
static struct state state;
static struct {
    uint32_t only[24];
} alone;
static struct {
    uint16_t seed;
    struct slot ways[3][16];
} cache = {.seed = 77};

static bool push(struct ring *r, uint32_t key, uint16_t len)
{
    uint32_t next = (r->head + 1u) % 20;
    if (next == r->tail) {
        r->drops++;
        r->full = 1;
        return false;
    }
    r->slots[r->head % 20] = (struct slot){.key = key, .len = len, .used = 1};
    r->slots[r->head % 20].age += len;
    r->head = next;
    return true;
}

static bool pop(struct ring *r, struct slot *out)
{
    if (r->head == r->tail)
        return false;
    *out = r->slots[r->tail % 20];
    r->slots[r->tail % 20].used = 0;
    r->tail = (r->tail + 1) % 20;
    return true;
}

static void add(struct bucket *b, uint32_t at, uint16_t by)
{
    b->of[at % 48] += by;
    b->sum += by;
    b->mac[at % 6] ^= 1;
}

static uint32_t total(const uint32_t *of, uint32_t n)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum = sum * 3 + of[i];
    return sum;
}

static uint32_t count(struct inner *in, uint32_t a, uint32_t b)
{
    in->total += a;
    in->counts[a % 5][b % 8] += b;
    return total(in->counts[b % 5], 8);
}

static struct slot *way(uint32_t key)
{
    for (uint32_t i = 0; i < 3; i++) {
        struct slot *slot = &cache.ways[i][key % 16];
        if (slot->key == key || !slot->used)
            return slot;
    }
    return NULL;
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
    uint32_t n = head.of[0], m = head.of[1] ^ nf_len(pkt), sum = cache.seed;
    push(&ring, n, m);
    push(n & 1 ? &ring : &backup, m, n);
    struct slot slot = {};
    if ((m & 3) == 0 && pop(&ring, &slot))
        sum += slot.key + slot.len * 3 + slot.age;
    add(&buckets[n & 3], m, n);
    sum += buckets[m & 3].of[n % 48] + buckets[m & 3].sum;
    sum += count(&state.rx, n, m) + count(n & 2 ? &state.rx : &state.tx, m, n);
    state.seen[n & 127] |= 1 << (m & 7);
    state.words[m & 31]++;
    state.words[n & 31] -= 2;
    state.name[5] = n;
    alone.only[m % 24] += n;
    box.block.words[m & 31] += n;
    box.block.bytes[n & 127] ^= 3;
    block.words[n & 31] = box.block.words[3] + box.n++;
    box.in.of[m % 40]++;
    sum += block.bytes[m & 127] + box.in.of[n % 40];
    struct slot *found = way(m & 63);
    if (found) {
        found->key = m & 63;
        found->used = 1;
        found->len++;
    }
    switch (n & 31) {
    case 3:
        backup = ring;
        break;
    case 4:
        memset(&ring, 0, sizeof(ring));
        break;
    case 5:
        buckets[m & 3] = (struct bucket){.sum = 1, .of = {[3] = 8}, .mac = {1, 2, 3, 4, 5, 6}};
        break;
    case 6:
        state.tx = state.rx;
        break;
    case 7:
        memset(state.seen, n, sizeof(state.seen));
        memcpy(state.name, head.of, sizeof(head.of));
        break;
    case 8: {
        struct bucket copy = buckets[1];
        copy.of[m % 48] += 3;
        sum += copy.of[47] + copy.mac[2];
        buckets[2] = copy;
        break;
    }
    default:
        break;
    }
    head.of[2] = (uint8_t)sum;
    head.of[3] = (uint8_t)(sum >> 8);
    head.of[4] = ring.drops + backup.drops + ring.head;
    nf_emit(pkt, &head);
    nf_send(pkt, sum & 1);
}
