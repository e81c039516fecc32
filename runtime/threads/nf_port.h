/* SPDX-License-Identifier: 0BSD
 *
 * nf_port.h (threads) - what engines stand on where they are cores: queues, contexts and progress
 * of nf_threads.c.
 */
#ifndef NF_PORT_H
#define NF_PORT_H

#include "nf_threads.h"

extern const struct nf_table_spec nf_table_specs[];

NF_INLINE bool nf_queue_put(u32 queue, const struct nf_work *work)
{
    return nf_ring_put(queue, work, sizeof(*work));
}
NF_INLINE bool nf_queue_get(u32 queue, struct nf_work *work)
{
    return nf_ring_get(queue, work, sizeof(*work));
}
NF_INLINE u64 nf_progress_get(u32 engine)
{
    return __atomic_load_n(&nf_shared_words[engine], __ATOMIC_ACQUIRE);
}
NF_INLINE void nf_progress_set(u32 engine, u64 value)
{
    __atomic_store_n(&nf_shared_words[engine], value, __ATOMIC_RELEASE);
}
/* Takes a lock; false if somebody has it. */
NF_INLINE bool nf_lock_try(u32 number)
{
    return !__atomic_exchange_n(&nf_lock_words[number], 1, __ATOMIC_ACQUIRE);
}
NF_INLINE void nf_lock_free(u32 number)
{
    __atomic_store_n(&nf_lock_words[number], 0, __ATOMIC_RELEASE);
}
NF_INLINE struct nf_context *nf_context_at(u32 number)
{
    return (struct nf_context *)nf_record_at(number);
}
NF_INLINE struct nf_context *nf_context_new(void)
{
    u32 number;
    return nf_ring_get(NF_FREE_RECORDS, &number, sizeof(number)) ? nf_context_at(number) : NULL;
}
NF_INLINE void nf_context_free(struct nf_context *context)
{
    nf_ring_put(NF_FREE_RECORDS, &context->number, sizeof(context->number));
}
/* What waits at the ports: the thread that feeds events notes it down and frees the context. */
struct nf_left {
    u32 context;
    u32 port;
};
NF_INLINE void nf_transmit(struct nf_context *context, u32 port)
{
    /* There are fewer contexts than places in a ring. */
    struct nf_left left = {context->number, port};
    nf_ring_put(NF_LEFT, &left, sizeof(left));
}
NF_INLINE void nf_to_host(struct nf_context *context, u32 queue)
{
    (void)queue;
    nf_context_free(context);
}
NF_INLINE void nf_discard(struct nf_context *context) { nf_context_free(context); }
/* Byte strings and messages leave by the recorder alone. */
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
NF_INLINE void nf_idle(void) { nf_board_relax(); }
NF_INLINE bool nf_stopped(void) { return __atomic_load_n(&nf_all_done, __ATOMIC_ACQUIRE); }
/* Entry of a stage's file. */
#define NF_ENGINE_MAIN(stage)                                                                      \
    void nf_stage_##stage(struct nf_worker *w) { nf_engine(w); }
/* A table, by number, for one engine or for all. */
NF_INLINE struct nf_table *nf_make_table(u32 t, u32 capacity)
{
    const struct nf_table_spec *spec = &nf_table_specs[t];
    return nf_table_new(spec->kind, capacity, spec->key_size, spec->entry_size, spec->buf_capacity);
}
NF_INLINE void nf_attach_tables(struct nf_worker *w, const bool *sharded, const bool *locked,
                                u32 workers)
{
    (void)w;
    (void)sharded;
    (void)locked;
    (void)workers;
}
NF_INLINE u64 nf_cycles(void) { return nf_board_cycles(); }

#endif
