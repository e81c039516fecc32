/* Functions that give pointers back: into variables outside functions and into what they are given,
 * or null. */
#include <nicforge.h>

struct told {
    uint32_t key;
    uint16_t code;
    uint8_t bytes[6];
    uint64_t sum;
};

struct way {
    uint32_t key;
    uint32_t age;
};

struct set {
    struct way ways[4];
    uint32_t clock;
};

struct node {
    uint32_t key;
    uint32_t hits;
    uint16_t next;
};

static struct set sets[8];
static struct node nodes[24];
static uint16_t heads[4];
static uint16_t used;
static struct way spare = {.key = 70, .age = 100};

static struct node *lookup(uint32_t key)
{
    uint16_t at = heads[key & 3];
    for (int i = 0; i < 8 && at != 0; i++) {
        struct node *node = &nodes[(at - 1) % 24];
        if (node->key == key)
            return node;
        at = node->next;
    }
    return NULL;
}

static struct node *insert(uint32_t key)
{
    if (used >= 24)
        return 0;
    struct node *node = &nodes[used];
    node->key = key;
    node->next = heads[key & 3];
    heads[key & 3] = ++used;
    return node;
}

static struct way *oldest(struct set *set)
{
    struct way *found = &set->ways[0];
    for (int i = 1; i < 4; i++)
        if (set->ways[i].age < found->age)
            found = &set->ways[i];
    return found;
}

static struct way *find(struct set *set, uint32_t key)
{
    for (struct way *way = set->ways; way < set->ways + 4; way++)
        if (way->key == key)
            return way;
    return NULL;
}

static const uint8_t *behind(const uint8_t *bytes, uint32_t count) { return bytes + count % 4; }

static struct way *either(struct set *set, uint32_t key)
{
    struct way *way = find(set, key);
    return way ? way : oldest(set);
}

void net_recv(nf_pkt pkt)
{
    struct told told;
    if (!nf_extract(pkt, &told)) {
        nf_drop(pkt, "short");
        return;
    }
    struct node *node = lookup(told.key % 37);
    if (node == NULL && (node = insert(told.key % 37)) == NULL) {
        nf_drop(pkt, "full");
        return;
    }
    node->hits++;
    struct set *set = &sets[told.key % 8];
    struct way *way = either(set, told.code);
    way->key = told.code;
    way->age = ++set->clock;
    told.sum += way->age * 1000 + node->hits;
    told.sum += *behind(told.bytes, told.code) + behind(told.bytes, 1)[told.key & 1];
    either(set, told.code + 1)->age++;
    struct way *next = &sets[told.key & 7].ways[told.code & 3];
    for (int i = 0; i < 3 && next->age < 1000; i++)
        next = &sets[next->key & 7].ways[next->age & 3];
    next->age++;
    if (told.code & 64)
        next = &spare;
    told.sum += next == way;
    (find(set, told.key) ?: &spare)->age += 2;
    told.sum += (find(set, 7) ?: find(set, told.code) ?: &spare)->age + spare.key;
    nf_emit(pkt, &told);
    nf_send(pkt, find(set, 7) ? 1 : 0);
}
