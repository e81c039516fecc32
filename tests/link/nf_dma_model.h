/* SPDX-License-Identifier: 0BSD
 *
 * nf_dma_model.h - a DMA engine that is as bad as PCIe allows, in one thread and in virtual time.
 *
 * A command begins after a random delay, moves its 64-byte lines in random order, with random time
 * between them and mixed with the lines of other commands, and says that it is done some time after
 * the last. Lines are whole; nothing else is promised.
 */
#ifndef NF_DMA_MODEL_H
#define NF_DMA_MODEL_H

#include "nf_link_far.h"

#define NF_DMA_COMMANDS 32
#define NF_DMA_MOST_LINES 4096

struct nf_dma_command {
    uint8_t *to;
    const uint8_t *from;
    uint32_t length, lines, left;
    uint64_t next_ns;
    bool *done;
    bool moved[NF_DMA_MOST_LINES];
};

struct nf_dma_model {
    struct nf_dma dma;
    uint64_t random, now_ns;
    /* Longest time before a line, and for a command to begin, or to be known to be done. */
    uint64_t line_ns, latency_ns;
    uint32_t count;
    struct nf_dma_command *commands[NF_DMA_COMMANDS];
};

static inline uint64_t nf_dma_random(struct nf_dma_model *model, uint64_t below)
{
    model->random ^= model->random << 13;
    model->random ^= model->random >> 7;
    model->random ^= model->random << 17;
    return below ? model->random % below : 0;
}

static inline bool nf_dma_model_start(struct nf_dma *dma, void *to, const void *from,
                                      uint32_t length, bool *done)
{
    struct nf_dma_model *model = (struct nf_dma_model *)dma;
    uint32_t lines = (length + NF_LINK_LINE - 1) / NF_LINK_LINE;
    if (model->count == NF_DMA_COMMANDS || lines > NF_DMA_MOST_LINES)
        return false;
    struct nf_dma_command *command = model->commands[model->count++];
    memset(command, 0, sizeof(*command));
    *command = (struct nf_dma_command){
        .to = (uint8_t *)to, .from = (const uint8_t *)from, .length = length, .done = done};
    command->lines = command->left = lines;
    command->next_ns = model->now_ns + nf_dma_random(model, model->latency_ns);
    return true;
}

/* One line of a command that is due, or that it is done. */
static inline void nf_dma_model_step(struct nf_dma_model *model, uint32_t at)
{
    struct nf_dma_command *command = model->commands[at];
    if (!command->left) {
        __atomic_store_n(command->done, true, __ATOMIC_RELEASE);
        model->commands[at] = model->commands[--model->count];
        model->commands[model->count] = command;
        return;
    }
    uint32_t line = (uint32_t)nf_dma_random(model, command->lines);
    while (command->moved[line])
        line = (line + 1) % command->lines;
    command->moved[line] = true;
    uint32_t start = line * NF_LINK_LINE, bytes = command->length - start;
    memcpy(command->to + start, command->from + start, bytes < NF_LINK_LINE ? bytes : NF_LINK_LINE);
    command->left--;
    command->next_ns =
        model->now_ns + nf_dma_random(model, command->left ? model->line_ns : model->latency_ns);
}

/* Lets time pass. */
static inline void nf_dma_model_run(struct nf_dma_model *model, uint64_t now_ns)
{
    for (; model->now_ns < now_ns; model->now_ns++)
        for (uint32_t at = 0; at < model->count; at++)
            if (model->commands[at]->next_ns <= model->now_ns)
                nf_dma_model_step(model, at);
}

#endif
