/* nf_oracle.h - a packet program as plain C on this machine.
 *
 * Included before a user's program. It takes nicforge.h as users have it and gives its operations
 * bodies: each hands the bytes of its operands, and a variable of their type, to a function of the
 * process that loaded the program (the oracle, tests/src/oracle). What a type's padding is, the
 * oracle reads from the debug information of those variables.
 *
 * No part of Nicforge is used, but for its header: this is the program's meaning as C has it and
 * docs/language.md adds.
 */
#ifndef NF_ORACLE_H
#define NF_ORACLE_H

#include <nicforge.h>

/* What an operation stores in an entry or a packet: address, size, a variable of the type. */
struct nf_value {
    void *bytes;
    uint32_t size;
    const void *type;
};

struct nf_oracle_table {
    const char *name;
    const char *kind;
    uint32_t capacity;
    uint32_t strings;
    struct nf_value key;
    struct nf_value value;
    const void *self;
};

struct nf_logged {
    uint64_t bits;
    bool is_signed;
};

struct nf_oracle_calls {
    bool (*extract)(nf_pkt, struct nf_value);
    void (*emit)(nf_pkt, struct nf_value);
    bool (*strip)(nf_pkt, uint32_t);
    bool (*trim)(nf_pkt, uint32_t);
    void (*reset)(nf_pkt);
    uint32_t (*len)(nf_pkt);
    bool (*load)(nf_pkt, uint32_t, struct nf_value);
    bool (*store)(nf_pkt, uint32_t, struct nf_value);
    uint32_t (*port)(nf_pkt);
    void (*send)(nf_pkt, uint32_t);
    void (*pass)(nf_pkt);
    void (*to_host)(nf_pkt);
    void (*drop)(nf_pkt, const char *, const char *, uint32_t);
    void (*host_msg)(struct nf_value);
    void (*dma_write)(nf_pkt, uint64_t, uint32_t);
    nf_pkt (*clone)(nf_pkt);
    nf_pkt (*fresh)(struct nf_value, uint32_t);
    void (*later)(const void *);
    bool (*lookup)(const void *, void *, void *);
    bool (*lookup_bits)(const void *, void *, uint32_t, void *);
    bool (*contains)(const void *, void *);
    bool (*update)(const void *, void *, void *);
    bool (*remove)(const void *, void *);
    /* Table, to its key and value, where the number lies in a value, its size, whether it is
     * signed. */
    bool (*least)(const void *, void *, void *, uint32_t, uint32_t, bool);
    bool (*entry)(const void *, void *, void *);
    bool (*append_pkt)(const void *, void *, nf_pkt, uint32_t);
    bool (*append)(const void *, void *, struct nf_value);
    uint32_t (*buf_len)(const void *, void *);
    bool (*buf_read)(const void *, void *, uint32_t, struct nf_value);
    void (*buf_clear)(const void *, void *);
    bool (*buf_leave)(const void *, void *, int64_t);
    uint32_t (*hash)(uint32_t, struct nf_value);
    uint32_t (*csum_add)(uint32_t, struct nf_value);
    uint32_t (*csum_payload)(nf_pkt, uint32_t, uint32_t);
    bool (*crypto)(const char *, nf_pkt, uint32_t, const struct nf_value *, uint32_t);
    uint64_t (*now)(void);
    uint32_t (*random)(void);
    void (*log)(const char *, const struct nf_logged *, uint32_t);
};

/* Set by the process that loads this object. */
extern const struct nf_oracle_calls *nf_oracle;

/* What a program consists of; NF_ID tells the programs of one object apart. */
struct nf_oracle_timer {
    const char *name;
    void (*tick)(void);
};

struct nf_oracle_program {
    void (*net_recv)(nf_pkt);
    void (*host_send)(struct nf_value);
    struct nf_value message;
    const struct nf_oracle_table *tables, *end;
    /* Up to one without a name. */
    const struct nf_oracle_timer *timers;
};

#define NF_PASTE_(a, b) a##b
#define NF_PASTE(a, b) NF_PASTE_(a, b)
#define NF_TEXT_(a) #a
#define NF_TEXT(a) NF_TEXT_(a)
#define NF_SECTION NF_TEXT(NF_PASTE(nf_tables_, NF_ID))

/* The type of an expression as an operand: of a bit-field, its declared type. */
#define NF_TYPEOF(x) __typeof__(({ (x); }))
/* The variable at p. */
#define NF_AT(p)                                                                                   \
    ({                                                                                             \
        static __typeof__(*(p)) nf_type_;                                                          \
        (struct nf_value){(void *)(p), sizeof(*(p)), &nf_type_};                                   \
    })
/* A value; its copy lives as long as the block around. */
#define NF_VALUE(call, x, ...)                                                                     \
    ({                                                                                             \
        NF_TYPEOF(x) nf_x_ = (x);                                                                  \
        nf_oracle->call(__VA_ARGS__, NF_AT(&nf_x_));                                               \
    })

#define nf_extract(pkt, p) nf_oracle->extract((pkt), NF_AT(p))
#define nf_emit(pkt, p) nf_oracle->emit((pkt), NF_AT(p))
#define nf_strip(pkt, n) nf_oracle->strip((pkt), (n))
#define nf_trim(pkt, n) nf_oracle->trim((pkt), (n))
#define nf_reset(pkt) nf_oracle->reset(pkt)
#define nf_len(pkt) nf_oracle->len(pkt)
#define nf_load(pkt, off, p) nf_oracle->load((pkt), (off), NF_AT(p))
#define nf_store(pkt, off, p) nf_oracle->store((pkt), (off), NF_AT(p))
#define nf_port(pkt) nf_oracle->port(pkt)
#define nf_send(pkt, port) nf_oracle->send((pkt), (port))
#define nf_clone(pkt) nf_oracle->clone(pkt)
#undef nf_new
#define nf_new(...) NF_NEW_(__VA_ARGS__, 0xffffffff)
#define NF_NEW_(frame, len, ...)                                                                   \
    ({                                                                                             \
        NF_TYPEOF(frame) nf_f_ = (frame);                                                          \
        nf_oracle->fresh(NF_AT(&nf_f_), (len));                                                    \
    })
#define nf_pass(pkt) nf_oracle->pass(pkt)
#define nf_to_host(pkt) nf_oracle->to_host(pkt)
#define nf_drop(pkt, ...) nf_oracle->drop((pkt), "" __VA_ARGS__, __FILE_NAME__, __LINE__)
#undef nf_host_msg
#define nf_host_msg(message)                                                                       \
    ({                                                                                             \
        NF_TYPEOF(message) nf_m_ = (message);                                                      \
        nf_oracle->host_msg(NF_AT(&nf_m_));                                                        \
    })
#define nf_dma_write(pkt, addr, len) nf_oracle->dma_write((pkt), (addr), (len))

/* The arguments are values now, the call is later: a block of clang's keeps them. */
#undef nf_enqueue
#define nf_enqueue(queue, ...) NF_ENQUEUE_(queue, ##__VA_ARGS__, 6, 5, 4, 3, 2, 1, 0)
#define NF_ENQUEUE_(queue, a, b, c, d, e, f, n, ...) NF_ENQUEUE_##n(queue, a, b, c, d, e, f)
#define NF_KEEP_(n, x) NF_TYPEOF(x) nf_##n##_ = (x)
#define NF_ENQUEUE_1(q, a, ...)                                                                    \
    ({                                                                                             \
        NF_KEEP_(1, a);                                                                            \
        nf_oracle->later(^{                                                                        \
          q(nf_1_);                                                                                \
        });                                                                                        \
    })
#define NF_ENQUEUE_2(q, a, b, ...)                                                                 \
    ({                                                                                             \
        NF_KEEP_(1, a);                                                                            \
        NF_KEEP_(2, b);                                                                            \
        nf_oracle->later(^{                                                                        \
          q(nf_1_, nf_2_);                                                                         \
        });                                                                                        \
    })
#define NF_ENQUEUE_3(q, a, b, c, ...)                                                              \
    ({                                                                                             \
        NF_KEEP_(1, a);                                                                            \
        NF_KEEP_(2, b);                                                                            \
        NF_KEEP_(3, c);                                                                            \
        nf_oracle->later(^{                                                                        \
          q(nf_1_, nf_2_, nf_3_);                                                                  \
        });                                                                                        \
    })
#define NF_ENQUEUE_4(q, a, b, c, d, ...)                                                           \
    ({                                                                                             \
        NF_KEEP_(1, a);                                                                            \
        NF_KEEP_(2, b);                                                                            \
        NF_KEEP_(3, c);                                                                            \
        NF_KEEP_(4, d);                                                                            \
        nf_oracle->later(^{                                                                        \
          q(nf_1_, nf_2_, nf_3_, nf_4_);                                                           \
        });                                                                                        \
    })
#define NF_ENQUEUE_5(q, a, b, c, d, e, ...)                                                        \
    ({                                                                                             \
        NF_KEEP_(1, a);                                                                            \
        NF_KEEP_(2, b);                                                                            \
        NF_KEEP_(3, c);                                                                            \
        NF_KEEP_(4, d);                                                                            \
        NF_KEEP_(5, e);                                                                            \
        nf_oracle->later(^{                                                                        \
          q(nf_1_, nf_2_, nf_3_, nf_4_, nf_5_);                                                    \
        });                                                                                        \
    })
#define NF_ENQUEUE_6(q, a, b, c, d, e, f)                                                          \
    ({                                                                                             \
        NF_KEEP_(1, a);                                                                            \
        NF_KEEP_(2, b);                                                                            \
        NF_KEEP_(3, c);                                                                            \
        NF_KEEP_(4, d);                                                                            \
        NF_KEEP_(5, e);                                                                            \
        NF_KEEP_(6, f);                                                                            \
        nf_oracle->later(^{                                                                        \
          q(nf_1_, nf_2_, nf_3_, nf_4_, nf_5_, nf_6_);                                             \
        });                                                                                        \
    })

/* Tables: the variable is only a name; what it is stands in a section of the program's own. */
#undef NF_TABLE
#undef NF_BUF_TABLE
#define NF_TABLE(kind, name, key_type, value_type, entries)                                        \
    NF_TABLE_(#kind, name, #name, NF_PASTE(name, NF_ID), key_type, value_type, entries, 0)
#define NF_BUF_TABLE(kind, name, key_type, value_type, entries, bytes)                             \
    NF_TABLE_(#kind, name, #name, NF_PASTE(name, NF_ID), key_type, value_type, entries, bytes)
#define NF_TABLE_(kind, name, text, unique, key_type, value_type, entries, bytes)                  \
    NF_TABLE__(kind, name, text, unique, key_type, value_type, entries, bytes)
#define NF_TABLE__(kind, name, text, unique, key_type, value_type, entries, bytes)                 \
    static struct {                                                                                \
        key_type *key;                                                                             \
        value_type *value;                                                                         \
    } name;                                                                                        \
    static __typeof__(*name.key) nf_key_##unique;                                                  \
    static __typeof__(*name.value) nf_value_##unique;                                              \
    static const struct nf_oracle_table nf_table_##unique                                          \
        __attribute__((used, section(NF_SECTION))) = {                                             \
            text,                                                                                  \
            kind,                                                                                  \
            entries,                                                                               \
            bytes,                                                                                 \
            {0, sizeof(*name.key), &nf_key_##unique},                                              \
            {0, sizeof(*name.value), &nf_value_##unique},                                          \
            &name,                                                                                 \
    }

/* The last argument may be `(struct key){1, 2}`, whose comma divides arguments of macros. */
#define NF_KEY(table, ...) __typeof__(*(table)->key) nf_k_ = (__VA_ARGS__)
#define nf_lookup(table, x, p)                                                                     \
    ({                                                                                             \
        NF_KEY(table, x);                                                                          \
        __typeof__((table)->value) nf_p_ = (p);                                                    \
        nf_oracle->lookup((table), &nf_k_, nf_p_);                                                 \
    })
#define nf_lookup_bits(table, x, bits, p)                                                          \
    ({                                                                                             \
        NF_KEY(table, x);                                                                          \
        __typeof__((table)->value) nf_p_ = (p);                                                    \
        nf_oracle->lookup_bits((table), &nf_k_, (uint32_t)(bits), nf_p_);                          \
    })
#define nf_contains(table, ...)                                                                    \
    ({                                                                                             \
        NF_KEY(table, __VA_ARGS__);                                                                \
        nf_oracle->contains((table), &nf_k_);                                                      \
    })
#define nf_update(table, x, ...)                                                                   \
    ({                                                                                             \
        NF_KEY(table, x);                                                                          \
        __typeof__(*(table)->value) nf_v_ = (__VA_ARGS__);                                         \
        nf_oracle->update((table), &nf_k_, &nf_v_);                                                \
    })
#define nf_delete(table, ...)                                                                      \
    ({                                                                                             \
        NF_KEY(table, __VA_ARGS__);                                                                \
        nf_oracle->remove((table), &nf_k_);                                                        \
    })
#undef nf_least
#undef nf_least_value
#define nf_least(table, member, k, v) NF_LEAST(table, .member, k, v)
#define nf_least_value(table, k, v) NF_LEAST(table, , k, v)
#define NF_LEAST(table, part, k, v)                                                                \
    ({                                                                                             \
        static __typeof__(*(table)->value) nf_v_;                                                  \
        __typeof__((table)->key) nf_k_ = (k);                                                      \
        __typeof__((table)->value) nf_p_ = (v);                                                    \
        nf_oracle->least((table), nf_k_, nf_p_,                                                    \
                         (uint32_t)((char *)&(nf_v_ part) - (char *)&nf_v_), sizeof(nf_v_ part),   \
                         (__typeof__(nf_v_ part))-1 < 0);                                          \
    })
/* Reads the entry, which is made if there is none, changes a part of it and writes it back. */
#define NF_COMMUTE(table, x, part, amount, change)                                                 \
    ({                                                                                             \
        NF_KEY(table, x);                                                                          \
        __typeof__(*(table)->value) nf_v_;                                                         \
        __typeof__(nf_v_ part) nf_a_ = (amount);                                                   \
        if (nf_oracle->entry((table), &nf_k_, &nf_v_)) {                                           \
            __typeof__(nf_v_ part) nf_o_ = nf_v_ part;                                             \
            nf_v_ part = (change);                                                                 \
            nf_oracle->update((table), &nf_k_, &nf_v_);                                            \
        }                                                                                          \
        (void)0;                                                                                   \
    })
#undef nf_add
#undef nf_min
#undef nf_max
#undef nf_or
#undef nf_add_value
#undef nf_min_value
#undef nf_max_value
#undef nf_or_value
#define nf_add(table, key, member, n) NF_COMMUTE(table, key, .member, n, nf_o_ + nf_a_)
#define nf_min(table, key, member, n)                                                              \
    NF_COMMUTE(table, key, .member, n, nf_a_ < nf_o_ ? nf_a_ : nf_o_)
#define nf_max(table, key, member, n)                                                              \
    NF_COMMUTE(table, key, .member, n, nf_a_ > nf_o_ ? nf_a_ : nf_o_)
#define nf_or(table, key, member, n) NF_COMMUTE(table, key, .member, n, nf_o_ | nf_a_)
#define nf_add_value(table, key, n) NF_COMMUTE(table, key, , n, nf_o_ + nf_a_)
#define nf_min_value(table, key, n) NF_COMMUTE(table, key, , n, nf_a_ < nf_o_ ? nf_a_ : nf_o_)
#define nf_max_value(table, key, n) NF_COMMUTE(table, key, , n, nf_a_ > nf_o_ ? nf_a_ : nf_o_)
#define nf_or_value(table, key, n) NF_COMMUTE(table, key, , n, nf_o_ | nf_a_)

#define NF_KEYED(call, table, x, ...)                                                              \
    ({                                                                                             \
        NF_KEY(table, x);                                                                          \
        nf_oracle->call((table), &nf_k_, ##__VA_ARGS__);                                           \
    })
#define nf_buf_append_pkt(table, key, pkt, n) NF_KEYED(append_pkt, table, key, pkt, n)
#define nf_buf_append(table, x, y)                                                                 \
    ({                                                                                             \
        NF_KEY(table, x);                                                                          \
        NF_VALUE(append, y, (table), &nf_k_);                                                      \
    })
#define nf_buf_len(table, key) NF_KEYED(buf_len, table, key)
#define nf_buf_read(table, key, off, p) NF_KEYED(buf_read, table, key, off, NF_AT(p))
#define nf_buf_clear(table, key) NF_KEYED(buf_clear, table, key)
#define nf_buf_send(table, key, port) NF_KEYED(buf_leave, table, key, (uint32_t)(port))
#define nf_buf_to_host(table, key) NF_KEYED(buf_leave, table, key, -1)

#define nf_hash(seed, value) NF_VALUE(hash, value, (seed))
#define nf_csum_add(sum, value) NF_VALUE(csum_add, value, (sum))
#define nf_csum_payload(pkt, sum, n) nf_oracle->csum_payload((pkt), (sum), (n))
#define NF_CRYPTO(word, pkt, n, ...)                                                               \
    ({                                                                                             \
        const struct nf_value nf_args_[] = {__VA_ARGS__};                                          \
        nf_oracle->crypto(word, (pkt), (n), nf_args_, sizeof(nf_args_) / sizeof(*nf_args_));       \
    })
#define nf_aes_ctr(pkt, n, key, iv) NF_CRYPTO("aes_ctr", pkt, n, NF_AT(key), NF_AT(iv))
#define nf_aes_cbc_encrypt(pkt, n, key, iv)                                                        \
    NF_CRYPTO("aes_cbc_encrypt", pkt, n, NF_AT(key), NF_AT(iv))
#define nf_aes_cbc_decrypt(pkt, n, key, iv)                                                        \
    NF_CRYPTO("aes_cbc_decrypt", pkt, n, NF_AT(key), NF_AT(iv))
#define nf_aes_gcm_seal(pkt, n, key, nonce, beside, tag)                                           \
    NF_CRYPTO("aes_gcm_seal", pkt, n, NF_AT(key), NF_AT(nonce), NF_AT(beside), NF_AT(tag))
#define nf_aes_gcm_open(pkt, n, key, nonce, beside, tag)                                           \
    NF_CRYPTO("aes_gcm_open", pkt, n, NF_AT(key), NF_AT(nonce), NF_AT(beside), NF_AT(tag))
#define nf_sha256(pkt, n, digest) ((void)NF_CRYPTO("sha256", pkt, n, NF_AT(digest)))
#define nf_hmac_sha256(pkt, n, key, digest)                                                        \
    ((void)NF_CRYPTO("hmac_sha256", pkt, n, NF_AT(key), NF_AT(digest)))
#define nf_crc32(pkt, n)                                                                           \
    ({                                                                                             \
        uint32_t nf_sum_;                                                                          \
        (void)NF_CRYPTO("crc32", pkt, n, NF_AT(&nf_sum_));                                         \
        nf_sum_;                                                                                   \
    })
#define nf_regex(pkt, n, patterns)                                                                 \
    ({                                                                                             \
        static const char nf_lines_[] = patterns;                                                  \
        uint32_t nf_pattern_;                                                                      \
        (void)NF_CRYPTO("regex", pkt, n, NF_AT(&nf_lines_), NF_AT(&nf_pattern_));                  \
        nf_pattern_;                                                                               \
    })
#define nf_now() nf_oracle->now()
#define nf_random() nf_oracle->random()
#define nf_fib_lookup(query, answer) (*(answer) = (struct nf_fib_answer){}, false)

#define NF_LOGGED(x) (struct nf_logged){(uint64_t)(x), (NF_TYPEOF(x)) - 1 < (NF_TYPEOF(x))1}
#define nf_log(...) NF_LOG_(__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define NF_LOG_(format, a, b, c, d, e, f, g, h, n, ...)                                            \
    NF_LOG(format, n, NF_LOG_##n(a, b, c, d, e, f, g, h))
#define NF_LOG(format, n, ...) nf_oracle->log(format, (const struct nf_logged[]){__VA_ARGS__}, n)
#define NF_LOG_0(...)                                                                              \
    {                                                                                              \
    }
#define NF_LOG_1(a, ...) NF_LOGGED(a)
#define NF_LOG_2(a, b, ...) NF_LOG_1(a, 0), NF_LOGGED(b)
#define NF_LOG_3(a, b, c, ...) NF_LOG_2(a, b, 0), NF_LOGGED(c)
#define NF_LOG_4(a, b, c, d, ...) NF_LOG_3(a, b, c, 0), NF_LOGGED(d)
#define NF_LOG_5(a, b, c, d, e, ...) NF_LOG_4(a, b, c, d, 0), NF_LOGGED(e)
#define NF_LOG_6(a, b, c, d, e, f, ...) NF_LOG_5(a, b, c, d, e, 0), NF_LOGGED(f)
#define NF_LOG_7(a, b, c, d, e, f, g, ...) NF_LOG_6(a, b, c, d, e, f, 0), NF_LOGGED(g)
#define NF_LOG_8(a, b, c, d, e, f, g, h) NF_LOG_7(a, b, c, d, e, f, g, 0), NF_LOGGED(h)

/* Bounds hold in programs that are right. Annotations say nothing about meaning. */
#undef NF_BOUND
#define NF_BOUND(n) (void)0

/* A program's description; the object's, once. */
#define NF_ORACLE_PROGRAM(id, recv, host, size, type)                                              \
    NF_ORACLE_PROGRAM_(nf_program_##id, __start_nf_tables_##id, __stop_nf_tables_##id,             \
                       nf_timers_##id, recv, host, size, type)
#define NF_ORACLE_PROGRAM_(name, from, to, timers, recv, host, size, type)                         \
    extern const struct nf_oracle_table from[] __attribute__((weak, visibility("hidden")));        \
    extern const struct nf_oracle_table to[] __attribute__((weak, visibility("hidden")));          \
    const struct nf_oracle_program name = {recv, host, {0, size, type}, from, to, timers};
#define NF_ORACLE_OBJECT                                                                           \
    const struct nf_oracle_calls *nf_oracle;                                                       \
    void *_NSConcreteStackBlock[32], *_NSConcreteGlobalBlock[32];

#endif
