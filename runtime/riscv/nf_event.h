/* SPDX-License-Identifier: 0BSD
 *
 * nf_event.h (riscv) - runs one event, and those of this stage that come of it.
 */
#ifndef NF_RISCV_EVENT_H
#define NF_RISCV_EVENT_H

#define NF_LAYOUT_WORDS 9
/* Where the loader finds things: bytes of a worker, offsets in it, and how many of each there are.
 */
__attribute__((used)) const u32 nf_layout[NF_LAYOUT_WORDS] = {
    sizeof(struct nf_worker),
    offsetof(struct nf_worker, number),
    offsetof(struct nf_worker, events),
    offsetof(struct nf_worker, lost),
    offsetof(struct nf_worker, drops),
    NF_REASONS,
    offsetof(struct nf_worker, tables),
    NF_TABLES,
    NF_CORE_BYTES,
};

static inline void nf_run_event(struct nf_worker *w, u32 event, const void *params)
{
    w->env.user = w;
    w->env.tables = w->tables;
    w->env.worker = w->number;
    w->outputs = 0;
    nf_handle(&w->env, event, params);
    /* A handler that returned early still holds them. */
    nf_unlock(&w->env);
    while (NF_SENDS_ITSELF && w->local_count) {
        struct nf_local_event one = w->local[w->local_first];
        w->local_first = (w->local_first + 1) % NF_LOCAL_EVENTS;
        w->local_count--;
        nf_handle(&w->env, one.event, one.params);
        nf_unlock(&w->env);
    }
    w->events++;
}

#endif
