/* SPDX-License-Identifier: 0BSD
 *
 * nf_port.h (nfp) - what engines stand on where they are micro-engines: rings in external memory
 * are their queues and the free contexts, progress is a word per engine that is read and written
 * atomically, packets leave by the network block with their number in its sequencer, which puts
 * them back into order.
 *
 * Rings and not work queues: an engine that waits in a work queue cannot say that it is idle, and
 * that is what order between stages is restored by.
 */
#ifndef NF_PORT_H
#define NF_PORT_H

#include "nf_threads.h"
#include "nfp_chip.h"

/* Packets of all ports are numbered by one sequencer of the network block when they come in, and
 * wait for their turn in the same one when they leave. */
#define NF_SEQUENCER 0

extern const struct nf_table_spec nf_table_specs[];
static const uint8_t nf_table_memory[NF_TABLES + 1] = NF_TABLE_MEMORIES;

NF_INLINE bool nf_queue_put(u32 queue, const struct nf_work *work)
{
    __xwrite struct nf_work out = *work;
    return mem_ring_put(queue, &out, sizeof(out)) >= 0;
}
NF_INLINE bool nf_queue_get(u32 queue, struct nf_work *work)
{
    __xread struct nf_work in;
    if (mem_ring_get(queue, &in, sizeof(in)) < 0)
        return false;
    *work = in;
    return true;
}
NF_INLINE u64 nf_progress_get(u32 engine)
{
    __xread u64 in;
    mem_read_atomic(&in, (__mem void *)&nf_shared_words[engine], sizeof(in));
    return in;
}
NF_INLINE void nf_progress_set(u32 engine, u64 value)
{
    __xwrite u64 out = value;
    mem_write_atomic(&out, (__mem void *)&nf_shared_words[engine], sizeof(out));
}
/* Takes a lock; false if somebody has it: one operation of the memory sets the word and says what
 * it was. What was written under a lock has reached its memory before the lock is free: every write
 * here waits for its signal. */
NF_INLINE bool nf_lock_try(u32 number)
{
    __xrw uint32_t word = 1;
    mem_test_set(&word, (__mem void *)&nf_lock_words[number], sizeof(word));
    return word == 0;
}
NF_INLINE void nf_lock_free(u32 number)
{
    __xwrite uint32_t word = 0;
    mem_write_atomic(&word, (__mem void *)&nf_lock_words[number], sizeof(word));
}
NF_INLINE struct nf_context *nf_context_at(u32 number)
{
    return (struct nf_context *)nf_record_at(number);
}
NF_INLINE struct nf_context *nf_context_new(void)
{
    __xread u32 number;
    return mem_ring_get(NF_FREE_RECORDS, &number, sizeof(number)) < 0 ? NULL
                                                                      : nf_context_at(number);
}
NF_INLINE void nf_context_free(struct nf_context *context)
{
    __xwrite u32 number = context->number;
    mem_ring_put(NF_FREE_RECORDS, &number, sizeof(number));
}
/* The network block sends the packet when its turn has come, and gives its buffer back, with the
 * context in it. */
NF_INLINE void nf_transmit(struct nf_context *context, u32 port)
{
    u32 length = (u32)(context->pkt.end - context->pkt.data);
    pkt_nbi_send(0, context->number, NULL, length, 0, port, NF_SEQUENCER, context->ticket,
                 PKT_CTM_SIZE_2048);
}
/* The number of a packet that does not leave must not be waited for. */
NF_INLINE void nf_discard(struct nf_context *context)
{
    pkt_nbi_drop_seq(0, context->number, NULL, 0, 0, 0, NF_SEQUENCER, context->ticket,
                     PKT_CTM_SIZE_2048);
}
/* The PCI Express side is the vendor's driver firmware, which has no model here: outputs to it are
 * what the recorder has. */
NF_INLINE void nf_to_host(struct nf_context *context, u32 queue)
{
    (void)queue;
    nf_discard(context);
}
NF_INLINE void nf_transmit_bytes(u32 port, const void *bytes, u32 size)
{
    (void)port;
    (void)bytes;
    (void)size;
}
NF_INLINE void nf_host_write(u64 addr, const void *bytes, u32 size)
{
    (void)addr;
    (void)bytes;
    (void)size;
}
NF_INLINE void nf_idle(void) { ctx_swap(); }
NF_INLINE bool nf_stopped(void) { return __atomic_load_n(&nf_all_done, __ATOMIC_ACQUIRE); }
NF_INLINE u64 nf_cycles(void) { return local_csr_read(local_csr_timestamp_low); }

NF_INLINE struct nf_table *nf_make_table(u32 t, u32 capacity)
{
    const struct nf_table_spec *spec = &nf_table_specs[t];
    return nf_table_new(spec->kind, (enum nf_memory)nf_table_memory[t], capacity, spec->key_size,
                        spec->entry_size, spec->buf_capacity);
}
/* Called by each engine when it starts. A table that engines share without locks is read only; each
 * has a handle of its own, as its CAM is its own. */
NF_INLINE void nf_attach_tables(struct nf_worker *w, const bool *sharded, const bool *locked,
                                u32 replicas)
{
    for (u32 t = 0; t < NF_TABLES; t++) {
        struct nf_table *table = w->tables[t];
        /* A CAM knows nothing of what other engines do to a table they share. */
        if (!table->small || (replicas > 1 && locked[t]))
            continue;
        if (replicas > 1 && !sharded[t]) {
            struct nf_table *own = nfp_allocate(sizeof(*own));
            if (!own)
                continue;
            *own = *table;
            w->tables[t] = table = own;
        }
        nf_table_use_cam(table);
        return;
    }
}

#ifdef NF_CHIP
/* An engine has a program of its own, which its eight contexts start: one of them is the engine, as
 * a stage's state is one for all of it. NF_REPLICA says which of its stage's engines it is. */
NF_INLINE void nf_start(struct nf_worker *w, u32 stage)
{
    w->stage = stage;
    w->number = nf_stages[stage].first + NF_REPLICA;
    w->env.worker = w->number;
    w->env.user = w;
    w->env.tables = w->tables;
    for (u32 t = 0; t < NF_TABLES; t++)
        w->tables[t] = nf_make_table(t, nf_table_specs[t].capacity);
}
#define NF_ENGINE_MAIN(stage)                                                                      \
    static struct nf_worker nf_self;                                                               \
    int main(void)                                                                                 \
    {                                                                                              \
        if (__ctx() == 0) {                                                                        \
            nf_start(&nf_self, stage);                                                             \
            nf_attach_tables(&nf_self, nf_sharded, nf_locked, NF_WORKERS);                         \
            nf_engine(&nf_self);                                                                   \
        }                                                                                          \
        return 0;                                                                                  \
    }
#else
#define NF_ENGINE_MAIN(stage)                                                                      \
    void nf_stage_##stage(struct nf_worker *w) { nf_engine(w); }
#endif

#endif
