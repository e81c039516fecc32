/* SPDX-License-Identifier: 0BSD
 *
 * nf_dma.h (dpdk) - the engine that moves entries between the NIC's process and the host's: DPDK's
 * first DMA device, if there is one (`--vdev dma_skeleton0` is one in software), else a modelled
 * one. A part of nf_far.h.
 *
 * All workers share it. Commands are done in order. What a device says has failed is copied by the
 * core that asks. The software device copies lines in pieces, which no hardware does: it is there
 * to try the interface, not for load.
 *
 * The modelled engine is a core's copy that happens later: NF_DMA_LATENCY_NS after it was asked
 * for, and no faster than NF_DMA_BYTES_PER_NS, one command behind the other. Both are those of the
 * host link of targets/liquidio.toml: 1,200 ns, 50 Gbit/s.
 */
#ifndef NF_DPDK_DMA_H
#define NF_DPDK_DMA_H

#include "nf_link_far.h"
#include <rte_dmadev.h>
#include <rte_spinlock.h>

#define NF_DMA_COMMANDS 1024u
#define NF_DMA_LATENCY_NS 1200.0
#define NF_DMA_BYTES_PER_NS 6.25

struct nf_dma_command {
    void *to;
    const void *from;
    u32 length;
    u64 due_ns;
    bool *done;
};

struct nf_dma_engine {
    struct nf_dma dma;
    rte_spinlock_t lock;
    /* Negative: modelled. */
    int device;
    double ns_per_cycle;
    /* When the last command is through, of those that were asked for. */
    u64 free_ns;
    u32 first, count, most;
    struct nf_dma_command commands[NF_DMA_COMMANDS];
    u64 failed;
};

static struct nf_dma_engine nf_dma_engine;

/* Nanoseconds since some time; what is due is compared with it. */
static u64 nf_dma_now(void) { return (u64)((double)rte_rdtsc() * nf_dma_engine.ns_per_cycle); }

static bool nf_dma_start(struct nf_dma *dma, void *to, const void *from, uint32_t length,
                         bool *done)
{
    struct nf_dma_engine *engine = (struct nf_dma_engine *)dma;
    rte_spinlock_lock(&engine->lock);
    bool room = engine->count < engine->most;
    if (room && engine->device >= 0)
        room = rte_dma_copy((int16_t)engine->device, 0, (rte_iova_t)(uintptr_t)from,
                            (rte_iova_t)(uintptr_t)to, length, RTE_DMA_OP_FLAG_SUBMIT) >= 0;
    if (room) {
        u64 now = nf_dma_now(), moved = (u64)(length / NF_DMA_BYTES_PER_NS);
        engine->free_ns = RTE_MAX(engine->free_ns, now) + moved;
        engine->commands[(engine->first + engine->count++) % NF_DMA_COMMANDS] =
            (struct nf_dma_command){to, from, length, engine->free_ns + (u64)NF_DMA_LATENCY_NS,
                                    done};
    }
    rte_spinlock_unlock(&engine->lock);
    return room;
}

/* As PCIe does it: whole lines, one after the other. A line begins with the word that says what it
 * is. */
static void nf_dma_lines(u8 *to, const u8 *from, u32 length)
{
    for (; length >= 8; to += NF_LINK_LINE, from += NF_LINK_LINE) {
        u32 part = RTE_MIN(length, (u32)NF_LINK_LINE);
        u64 word = __atomic_load_n((const u64 *)from, __ATOMIC_ACQUIRE);
        memcpy(to + 8, from + 8, part - 8);
        __atomic_store_n((u64 *)to, word, __ATOMIC_RELEASE);
        length -= part;
    }
}

static void nf_dma_finish(struct nf_dma_engine *engine, bool copy)
{
    struct nf_dma_command *command = &engine->commands[engine->first];
    if (copy)
        nf_dma_lines(command->to, command->from, command->length);
    __atomic_store_n(command->done, true, __ATOMIC_RELEASE);
    engine->first = (engine->first + 1) % NF_DMA_COMMANDS;
    engine->count--;
}

/* Takes note of what is done; of the modelled engine: does what is due. Whoever finds another core
 * at it goes on. */
static void nf_dma_poll(struct nf_dma_engine *engine)
{
    if (!engine->count || !rte_spinlock_trylock(&engine->lock))
        return;
    if (engine->device >= 0) {
        bool failed = false;
        u16 last, count = rte_dma_completed((int16_t)engine->device, 0, 64, &last, &failed);
        for (u32 i = 0; i < count; i++)
            nf_dma_finish(engine, false);
        enum rte_dma_status_code status[64];
        count =
            failed ? rte_dma_completed_status((int16_t)engine->device, 0, 64, &last, status) : 0;
        for (u32 i = 0; i < count; i++) {
            engine->failed += status[i] != RTE_DMA_STATUS_SUCCESSFUL;
            nf_dma_finish(engine, status[i] != RTE_DMA_STATUS_SUCCESSFUL);
        }
    } else {
        u64 now = nf_dma_now();
        while (engine->count && engine->commands[engine->first].due_ns <= now)
            nf_dma_finish(engine, true);
    }
    rte_spinlock_unlock(&engine->lock);
}

/* Takes the first device, if there is one that copies by the addresses programs have. False: there
 * is one that does not work.
 */
static bool nf_dma_open(struct nf_dma_engine *engine)
{
    engine->dma.start = nf_dma_start;
    rte_spinlock_init(&engine->lock);
    engine->ns_per_cycle = 1e9 / (double)rte_get_tsc_hz();
    engine->most = NF_DMA_COMMANDS;
    engine->device = rte_dma_next_dev(0);
    if (engine->device < 0)
        return true;
    int16_t device = (int16_t)engine->device;
    struct rte_dma_info info;
    struct rte_dma_conf conf = {.nb_vchans = 1};
    struct rte_dma_vchan_conf vchan = {.direction = RTE_DMA_DIR_MEM_TO_MEM};
    u64 needs = RTE_DMA_CAPA_MEM_TO_MEM | RTE_DMA_CAPA_OPS_COPY | RTE_DMA_CAPA_SVA;
    if (rte_dma_info_get(device, &info) || (info.dev_capa & needs) != needs) {
        fprintf(stderr, "nicforge-dpdk: DMA device %d does not copy by the addresses of programs\n",
                device);
        return false;
    }
    vchan.nb_desc = RTE_MAX(info.min_desc, RTE_MIN(info.max_desc, (u16)NF_DMA_COMMANDS));
    engine->most = RTE_MIN(NF_DMA_COMMANDS, vchan.nb_desc / 2u);
    return !rte_dma_configure(device, &conf) && !rte_dma_vchan_setup(device, 0, &vchan) &&
           !rte_dma_start(device);
}

static void nf_dma_close(struct nf_dma_engine *engine)
{
    if (engine->device >= 0) {
        rte_dma_stop((int16_t)engine->device);
        rte_dma_close((int16_t)engine->device);
    }
}

#endif
