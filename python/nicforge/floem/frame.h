/* What goes between elements of a program and bodies in C: all values as words. */
#pragma once
#include <stdint.h>
#define FLOEM_WORDS 16
#define FLOEM_CALLS 64
struct floem_call {
    uint32_t port;
    uint64_t at, words[FLOEM_WORDS];
};
struct floem_frame {
    /* The state of the packet, and the values. */
    uint64_t at, in[FLOEM_WORDS];
    uint32_t function, count;
    struct floem_call calls[FLOEM_CALLS];
};
void floem_next(struct floem_frame *frame);
void floem_answer(uint64_t value);
void floem_run(uint32_t body, struct floem_frame *frame);
/* The call of an output in a run of a body: of a certain one, or of one that may be. */
const struct floem_call *floem_called(const struct floem_frame *frame, uint32_t port);
const struct floem_call *floem_calls(const struct floem_frame *frame, uint32_t port);
/* Mailboxes between threads of a module. */
void floem_put(uint32_t box, const struct floem_frame *frame);
_Bool floem_take(uint32_t box, struct floem_frame *frame);
