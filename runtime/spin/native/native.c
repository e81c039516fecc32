// The runtime of handlers that run on this computer itself: what they ask of the NIC goes through
// one gate, which switches to the engine and comes back with the answer. What requests mean stands
// in crates/run/src/spin/native/request.rs.
#include <stdio.h>
#include <stdlib.h>

#include <handler.h>

enum {
    COMMAND = 1,
    COMMAND_WAIT,
    COMMAND_DONE,
    COPY,
    COPY_DONE,
    PAUSE,
    PRINT,
    TERMINATE_ALL,
    CYCLES
};

struct request {
    uint32_t kind;
    uint32_t words[6];
    uint32_t pc;
    uint32_t answer;
};

// Set by the engine: before the start, and whenever another unit goes on.
uint64_t nf_spin_gate;
volatile uint32_t nf_spin_self;

__attribute__((section(".host_data"))) volatile struct host_data __host_data;
volatile uint8_t dma_idx[CORE_COUNT];
struct nf_spin_reservation nf_spin_reserved[4 << 5];
void *UMM_MALLOC_CFG_HEAP_ADDR;
uint32_t UMM_MALLOC_CFG_HEAP_SIZE;

static inline uint32_t ask(struct request *request)
{
    uint64_t argument = (uintptr_t)request;

    __asm__ volatile("call *%1"
                     : "+D"(argument)
                     : "m"(nf_spin_gate)
                     : "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "xmm0", "xmm1", "xmm2",
                       "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
                       "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc");
    return request->answer;
}

#define ASK(number, ...)                                                                           \
    ask(&(struct request){.kind = (number),                                                        \
                          .words = {__VA_ARGS__},                                                  \
                          .pc = (uint32_t)(uintptr_t)__builtin_return_address(0)})

uint32_t nf_spin_command(uint32_t kind, uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3,
                         uint32_t w4)
{
    return ASK(COMMAND, kind, w0, w1, w2, w3, w4);
}

void nf_spin_command_wait(uint32_t command) { ASK(COMMAND_WAIT, command); }

bool nf_spin_command_done(uint32_t command) { return ASK(COMMAND_DONE, command); }

uint32_t nf_spin_copy(const void *from, void *to, uint32_t size)
{
    return ASK(COPY, (uint32_t)(uintptr_t)from, (uint32_t)(uintptr_t)to, size);
}

bool nf_spin_copy_done(uint32_t copy) { return ASK(COPY_DONE, copy); }

void nf_spin_pause(void) { ASK(PAUSE, 0); }

void nf_spin_terminate(void) { ASK(TERMINATE_ALL, 0); }

uint32_t nf_spin_cycles(void) { return ASK(CYCLES, 0); }

// For the C library's half.
void nf_spin_print(const char *text, uint32_t bytes)
{
    ASK(PRINT, (uint32_t)(uintptr_t)text, bytes);
}

// Called on core 0 of cluster 0 before any handler runs.
void nf_spin_start(void)
{
    handler_fn handlers[3] = {0};
    void *memory = NULL;

    init_handlers(&handlers[0], &handlers[1], &handlers[2], &memory);
    for (unsigned i = 0; i < MAX_COUNTERS; i++) {
        __host_data.counters[i].sum = 0;
        __host_data.counters[i].count = 0;
    }
}
