/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The tables of generated code beside DPDK's own: lookups that hit in 64k entries, and by masks in
 * 16 and in 256, one after the other as a handler does them, and for DPDK's in bulk as well, which
 * a handler that runs per packet has no use for. Rounds take turns; a line per kind: name and
 * cycles per lookup of each round.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <rte_acl.h>
#include <rte_byteorder.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <rte_lpm.h>

#include "nf_tables.h"

#define ENTRIES 65536u
#define LOOKUPS 262144u
#define BULK 32u

struct flow {
    uint32_t src;
    uint32_t dst;
    uint16_t sport;
    uint16_t dport;
    uint32_t protocol;
};

static struct flow flows[ENTRIES], asked[LOOKUPS];
static uint32_t addresses[LOOKUPS];
static uint64_t values[2 * ENTRIES];
static struct nf_table *own_hash, *own_lru, *own_lpm;
static struct rte_hash *their_hash;
static struct rte_lpm *their_lpm;
static volatile uint64_t sink;

static uint64_t state = 1;

static uint32_t number(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

/* A tenth of the table's prefixes are /16, the others /24. */
static void fill_lpm(void)
{
    for (uint32_t i = 0; i < ENTRIES; i++) {
        /* rte_lpm knows no /0. */
        uint8_t bits = i % 10 ? 24 : 16;
        uint32_t address = number() & (bits == 24 ? 0xffffff00u : 0xffff0000u),
                 key = __builtin_bswap32(address);
        uint32_t hop = i & 0xffffff;
        void *value = nf_table_put(own_lpm, &key, NULL, bits);
        if (value && rte_lpm_add(their_lpm, address, bits, hop) == 0)
            memcpy(value, &hop, sizeof(hop));
    }
}

/* ---- Masks: rules over one byte and three words, as rte_acl wants them
 * ---------------------------------------- */

#define FEW 16u
#define MANY 256u

/* Big endian, as frames have it. */
struct packed_flow {
    uint8_t protocol;
    uint8_t unused[3];
    uint32_t src;
    uint32_t dst;
    uint16_t sport;
    uint16_t dport;
};

RTE_ACL_RULE_DEF(rule, 5);

static const struct rte_acl_field_def fields[5] = {
    {RTE_ACL_FIELD_TYPE_BITMASK, 1, 0, 0, offsetof(struct packed_flow, protocol)},
    {RTE_ACL_FIELD_TYPE_BITMASK, 4, 1, 1, offsetof(struct packed_flow, src)},
    {RTE_ACL_FIELD_TYPE_BITMASK, 4, 2, 2, offsetof(struct packed_flow, dst)},
    {RTE_ACL_FIELD_TYPE_BITMASK, 2, 3, 3, offsetof(struct packed_flow, sport)},
    {RTE_ACL_FIELD_TYPE_BITMASK, 2, 4, 3, offsetof(struct packed_flow, dport)},
};

static struct masks {
    struct nf_table *own;
    struct rte_acl_ctx *theirs;
    struct packed_flow asked[LOOKUPS];
} few, many;

static struct packed_flow packed(uint32_t protocol, uint32_t src, uint32_t dst, uint32_t dport)
{
    return (struct packed_flow){
        .protocol = (uint8_t)protocol,
        .src = rte_cpu_to_be_32(src),
        .dst = rte_cpu_to_be_32(dst),
        .dport = rte_cpu_to_be_16((uint16_t)dport),
    };
}

/* Rules like a firewall's: a source prefix, sometimes a destination prefix, sometimes a port. Half
 * of what is asked fits some rule. */
static bool fill_masks(struct masks *masks, const char *name, uint32_t count)
{
    struct rte_acl_param param = {
        .name = name, .rule_size = sizeof(struct rule), .max_rule_num = count};
    struct rte_acl_config config = {.num_categories = 1, .num_fields = 5};
    memcpy(config.defs, fields, sizeof(fields));
    masks->own = nf_table_new(NF_TERNARY, count, sizeof(struct packed_flow), 4, 0);
    masks->theirs = rte_acl_create(&param);
    if (!masks->own || !masks->theirs)
        return false;
    struct packed_flow *fits = calloc(count, sizeof(*fits));
    for (uint32_t i = 0; fits && i < count; i++) {
        uint32_t src_mask = ~0u << (8 + number() % 17), dst_mask = number() % 2 ? ~0u << 16 : 0;
        uint32_t port_mask = number() % 2 ? 0xffff : 0, src = number() & src_mask,
                 dst = number() & dst_mask;
        uint32_t port = number() & port_mask, priority = count - i, hit = i + 1;
        struct rule rule = {
            .data = {.category_mask = 1, .priority = (int32_t)priority, .userdata = hit}};
        rule.field[0].value.u8 = 6;
        rule.field[0].mask_range.u8 = 0xff;
        rule.field[1].value.u32 = src;
        rule.field[1].mask_range.u32 = src_mask;
        rule.field[2].value.u32 = dst;
        rule.field[2].mask_range.u32 = dst_mask;
        rule.field[4].value.u16 = (uint16_t)port;
        rule.field[4].mask_range.u16 = (uint16_t)port_mask;
        struct packed_flow key = packed(6, src, dst, port),
                           mask = packed(0xff, src_mask, dst_mask, port_mask);
        void *value = nf_table_put(masks->own, &key, &mask, priority);
        if (!value || rte_acl_add_rules(masks->theirs, (struct rte_acl_rule *)&rule, 1))
            return false;
        memcpy(value, &hit, sizeof(hit));
        fits[i] = packed(6, src | (number() & ~src_mask), dst | (number() & ~dst_mask),
                         port | (number() & ~port_mask));
    }
    for (uint32_t i = 0; fits && i < LOOKUPS; i++)
        masks->asked[i] =
            number() % 2 ? fits[number() % count] : packed(6, number(), number(), number());
    free(fits);
    return fits && rte_acl_build(masks->theirs, &config) == 0;
}

static uint64_t masks_own(const struct masks *masks)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < LOOKUPS; i++) {
        uint32_t *value = nf_ternary_find(masks->own, &masks->asked[i]);
        sum += value ? *value : 0;
    }
    return sum;
}

static uint64_t masks_theirs(const struct masks *masks, uint32_t bulk)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < LOOKUPS; i += bulk) {
        const uint8_t *keys[BULK];
        uint32_t hits[BULK];
        for (uint32_t k = 0; k < bulk; k++)
            keys[k] = (const uint8_t *)&masks->asked[i + k];
        rte_acl_classify(masks->theirs, keys, hits, bulk, 1);
        for (uint32_t k = 0; k < bulk; k++)
            sum += hits[k];
    }
    return sum;
}

static uint64_t few_own(void) { return masks_own(&few); }
static uint64_t many_own(void) { return masks_own(&many); }
static uint64_t few_theirs(void) { return masks_theirs(&few, 1); }
static uint64_t many_theirs(void) { return masks_theirs(&many, 1); }
static uint64_t few_theirs_bulk(void) { return masks_theirs(&few, BULK); }
static uint64_t many_theirs_bulk(void) { return masks_theirs(&many, BULK); }

static bool prepare(void)
{
    struct rte_hash_parameters hash = {.name = "flows",
                                       .entries = ENTRIES,
                                       .key_len = sizeof(struct flow),
                                       .hash_func = rte_hash_crc};
    struct rte_lpm_config lpm = {.max_rules = ENTRIES, .number_tbl8s = 256};
    own_hash = nf_table_new(NF_HASH, ENTRIES, sizeof(struct flow), 8, 0);
    own_lru = nf_table_new(NF_LRU, ENTRIES, sizeof(struct flow), 8, 0);
    own_lpm = nf_table_new(NF_LPM, ENTRIES, 4, 4, 0);
    their_hash = rte_hash_create(&hash);
    their_lpm = rte_lpm_create("routes", 0, &lpm);
    if (!own_hash || !own_lru || !own_lpm || !their_hash || !their_lpm)
        return false;
    uint32_t kept = 0;
    while (kept < ENTRIES * 9 / 10) {
        struct flow flow = {number(), number(), (uint16_t)number(), (uint16_t)number(), 6};
        int at = rte_hash_add_key(their_hash, &flow);
        void *own = nf_table_put(own_hash, &flow, NULL, 0),
             *lru = nf_table_put(own_lru, &flow, NULL, 0);
        if (at < 0 || !own || !lru)
            return false;
        values[at] = kept;
        memcpy(own, &kept, sizeof(kept));
        memcpy(lru, &kept, sizeof(kept));
        flows[kept++] = flow;
    }
    fill_lpm();
    if (!fill_masks(&few, "few", FEW) || !fill_masks(&many, "many", MANY))
        return false;
    for (uint32_t i = 0; i < LOOKUPS; i++) {
        asked[i] = flows[number() % kept];
        addresses[i] = number();
    }
    return true;
}

static uint64_t hash_own(void)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < LOOKUPS; i++) {
        uint32_t hash = nf_key_hash(&asked[i], sizeof(struct flow));
        uint32_t *value = nf_hash_find(own_hash, &asked[i], sizeof(struct flow), hash);
        sum += value ? *value : 0;
    }
    return sum;
}

static uint64_t lru_own(void)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < LOOKUPS; i++) {
        uint32_t hash = nf_key_hash(&asked[i], sizeof(struct flow));
        uint32_t *value = nf_lru_find(own_lru, &asked[i], sizeof(struct flow), hash);
        sum += value ? *value : 0;
    }
    return sum;
}

static uint64_t hash_theirs(void)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < LOOKUPS; i++) {
        int at = rte_hash_lookup(their_hash, &asked[i]);
        sum += at >= 0 ? values[at] : 0;
    }
    return sum;
}

static uint64_t hash_theirs_bulk(void)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < LOOKUPS; i += BULK) {
        const void *keys[BULK];
        int32_t at[BULK];
        for (uint32_t k = 0; k < BULK; k++)
            keys[k] = &asked[i + k];
        rte_hash_lookup_bulk(their_hash, keys, BULK, at);
        for (uint32_t k = 0; k < BULK; k++)
            sum += at[k] >= 0 ? values[at[k]] : 0;
    }
    return sum;
}

static uint64_t lpm_own(void)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < LOOKUPS; i++) {
        uint32_t key = __builtin_bswap32(addresses[i]);
        uint32_t *value = nf_lpm_find(own_lpm, &key, sizeof key);
        sum += value ? *value : 0;
    }
    return sum;
}

static uint64_t lpm_theirs(void)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < LOOKUPS; i++) {
        uint32_t hop = 0;
        sum += rte_lpm_lookup(their_lpm, addresses[i], &hop) == 0 ? hop : 0;
    }
    return sum;
}

static uint64_t lpm_theirs_bulk(void)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < LOOKUPS; i += BULK) {
        uint32_t hops[BULK];
        rte_lpm_lookup_bulk(their_lpm, &addresses[i], hops, BULK);
        for (uint32_t k = 0; k < BULK; k++)
            sum += hops[k] & RTE_LPM_LOOKUP_SUCCESS ? hops[k] & 0xffffff : 0;
    }
    return sum;
}

static const struct {
    const char *name;
    uint64_t (*run)(void);
} kinds[] = {{"hash", hash_own},
             {"lru", lru_own},
             {"rte_hash", hash_theirs},
             {"rte_hash_bulk", hash_theirs_bulk},
             {"lpm", lpm_own},
             {"rte_lpm", lpm_theirs},
             {"rte_lpm_bulk", lpm_theirs_bulk},
             {"masks16", few_own},
             {"rte_acl16", few_theirs},
             {"rte_acl16_bulk", few_theirs_bulk},
             {"masks256", many_own},
             {"rte_acl256", many_theirs},
             {"rte_acl256_bulk", many_theirs_bulk}};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* Argument behind `--`: rounds. */
int main(int argc, char **argv)
{
    int used = rte_eal_init(argc, argv);
    if (used < 0 || argc - used != 2)
        return 2;
    (void)rmdir(rte_eal_get_runtime_dir());
    uint32_t rounds = (uint32_t)strtoul(argv[used + 1], NULL, 10);
    double *times = calloc((size_t)rounds * KINDS + 1, sizeof(*times));
    if (!times || !prepare())
        return 3;
    /* Both sides of a pair must find the same, or their times mean nothing. */
    if (hash_own() != hash_theirs() || lru_own() != hash_theirs_bulk() ||
        lpm_own() != lpm_theirs() || lpm_theirs() != lpm_theirs_bulk() ||
        few_own() != few_theirs() || few_own() != few_theirs_bulk() ||
        many_own() != many_theirs() || many_own() != many_theirs_bulk()) {
        fprintf(stderr, "the tables disagree\n");
        return 1;
    }
    for (uint32_t round = 0; round < rounds; round++)
        for (uint32_t k = 0; k < KINDS; k++) {
            uint64_t start = rte_rdtsc();
            sink = kinds[k].run();
            times[k * rounds + round] = (double)(rte_rdtsc() - start) / LOOKUPS;
        }
    for (uint32_t k = 0; k < KINDS; k++) {
        printf("%s", kinds[k].name);
        for (uint32_t round = 0; round < rounds; round++)
            printf(" %.2f", times[k * rounds + round]);
        printf("\n");
    }
    return 0;
}
