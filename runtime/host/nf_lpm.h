/* SPDX-License-Identifier: 0BSD
 *
 * nf_lpm.h (host) - longest prefixes of four-byte keys, IPv4 addresses as a rule: part of
 * nf_tables.c.
 *
 * Three arrays one behind the other, of 16, 8 and 8 bits of the address (Gupta, Lin, McKeown,
 * INFOCOM'98, with a smaller first one), so a lookup takes two reads, and a third where there are
 * prefixes longer than 24 bits. A place of the first array has the longest prefix up to 16 bits and
 * the node for longer ones; node 0 is empty, so nobody asks whether there is one. A place of a node
 * has the longest prefix that ends in that node, or leads to a deeper node, which keeps that prefix
 * as its own. Shorter prefixes are not copied into nodes: what a lookup found on its way counts
 * when nothing longer comes. So a prefix of n bits is written to 2^(16 - n), 2^(24 - n) or 2^(32 -
 * n) places.
 *
 * The index of nf_tables.h stays the truth: what a removed prefix hid is looked for there. Memory:
 * 512 KiB, and 1 KiB for each first two and each first three bytes under which there are longer
 * prefixes.
 */
#ifndef NF_LPM_H
#define NF_LPM_H

#include <stdlib.h>

#include "nf_tables.h"

#define NF_ROOTS 65536u

static bool lpm_new(struct nf_table *table)
{
    table->roots = calloc(NF_ROOTS, sizeof(*table->roots));
    table->nodes = calloc(1, sizeof(*table->nodes));
    table->node_state = calloc(1, sizeof(*table->node_state));
    table->node_room = 1;
    table->node_count = 1;
    return table->roots && table->nodes && table->node_state;
}

static void lpm_free(struct nf_table *table)
{
    free(table->roots);
    free(table->nodes);
    free(table->node_state);
}

/* Makes room for two more nodes, as many as a prefix takes. */
static bool lpm_reserve(struct nf_table *table)
{
    if (table->node_count + 2 <= table->node_room)
        return true;
    uint32_t room = 2 * table->node_room + 2;
    void *nodes = realloc(table->nodes, room * sizeof(*table->nodes));
    if (nodes)
        table->nodes = nodes;
    void *state = realloc(table->node_state, room * sizeof(*table->node_state));
    if (state)
        table->node_state = state;
    if (!nodes || !state || room >= NF_DEEPER)
        return false;
    table->node_room = room;
    return true;
}

/* An empty node whose own prefix is given. */
static uint32_t lpm_node(struct nf_table *table, uint32_t own)
{
    uint32_t node = table->free_node;
    if (node)
        table->free_node = table->node_state[node].own;
    else
        node = table->node_count++;
    memset(table->nodes[node], 0, sizeof(table->nodes[node]));
    table->node_state[node] = (struct nf_node){own, 0};
    return node;
}

static void lpm_give_back(struct nf_table *table, uint32_t node)
{
    table->node_state[node].own = table->free_node;
    table->free_node = node;
}

static uint32_t *lpm_second(struct nf_table *table, uint32_t address)
{
    return &table->nodes[table->roots[address >> 16].node][address >> 8 & 255];
}

/* Writes one prefix of `bits` over another in all its places: `from`, or with `longest` any that is
 * shorter. */
static void lpm_write(struct nf_table *table, uint32_t address, uint32_t bits, uint32_t from,
                      uint32_t to, bool longest)
{
    uint32_t level = bits <= 16 ? 16 : bits <= 24 ? 24 : 32;
    for (uint32_t i = 0; i < 1u << (level - bits); i++) {
        uint32_t *place = &table->roots[(address >> 16) + (level == 16 ? i : 0)].entry;
        if (level > 16)
            place = lpm_second(table, address) + (level == 24 ? i : 0);
        if (level == 32)
            place = &table->nodes[*place & ~NF_DEEPER][(address & 255) + i];
        if (level == 24 && *place & NF_DEEPER)
            place = &table->node_state[*place & ~NF_DEEPER].own;
        bool shorter = longest && (!*place || nf_entry_at(table, *place - 1)->detail < bits);
        if (*place == from || shorter)
            *place = to;
    }
}

/* A new prefix, by the number of its entry plus one; there is room for two nodes. */
static void lpm_add(struct nf_table *table, uint32_t address, uint32_t bits, uint32_t entry)
{
    if (bits > 16) {
        uint32_t node = table->roots[address >> 16].node;
        if (!node)
            table->roots[address >> 16].node = node = lpm_node(table, 0);
        table->node_state[node].users++;
    }
    if (bits > 24) {
        uint32_t *place = lpm_second(table, address);
        if (!(*place & NF_DEEPER))
            *place = lpm_node(table, *place) | NF_DEEPER;
        table->node_state[*place & ~NF_DEEPER].users++;
    }
    lpm_write(table, address, bits, entry, entry, true);
}

/* A prefix goes; `hidden` is the next shorter one of the same array, if there is one. */
static void lpm_remove(struct nf_table *table, uint32_t address, uint32_t bits, uint32_t entry,
                       uint32_t hidden)
{
    lpm_write(table, address, bits, entry, hidden, false);
    if (bits > 24) {
        uint32_t *place = lpm_second(table, address), node = *place & ~NF_DEEPER;
        if (--table->node_state[node].users == 0) {
            *place = table->node_state[node].own;
            lpm_give_back(table, node);
        }
    }
    if (bits > 16) {
        struct nf_root *root = &table->roots[address >> 16];
        uint32_t node = root->node;
        if (--table->node_state[node].users == 0) {
            root->node = 0;
            lpm_give_back(table, node);
        }
    }
}

#endif
