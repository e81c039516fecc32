/* SPDX-License-Identifier: 0BSD
 *
 * nf_locks.h (common) - locks of tables that replicas share, or of their entries. Included by
 * nf_hooks.h behind struct nf_worker, whose `locks` are those that the event under way holds. The
 * port has nf_lock_try, nf_lock_free, and nf_idle for those who wait.
 */
#ifndef NF_LOCKS_H
#define NF_LOCKS_H

NF_INLINE void nf_lock(struct nf_env *env, u32 number)
{
    struct nf_worker *w = env->user;
    while (!nf_lock_try(number))
        nf_idle();
    w->locks[w->lock_count++] = number;
}

/* Gives back all that the event holds. */
NF_INLINE void nf_unlock(struct nf_env *env)
{
    struct nf_worker *w = env->user;
    while (NF_LOCKS && w->lock_count)
        nf_lock_free(w->locks[--w->lock_count]);
}

#endif
