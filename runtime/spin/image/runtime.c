// The C half of an image's runtime: data the host knows by name, output, and what the C library
// asks for.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <handler.h>

// The host finds this by name and by place: it comes first in .data.
__attribute__((section(".host_data"))) volatile struct host_data __host_data;

// Number of each core's last request to the host.
__attribute__((section(".data_tiny_l1"))) volatile uint8_t dma_idx[NUM_CLUSTER_HPUS];

// For images that bring an allocator: the heap stays empty unless they set these.
void *UMM_MALLOC_CFG_HEAP_ADDR;
uint32_t UMM_MALLOC_CFG_HEAP_SIZE;

// Output goes out character by character through a register of each core's own.
static int put(char c, FILE *file)
{
    uint32_t port = 0x1A104000 + user_cluster_id() * 128 + user_core_id() * 8;

    (void)file;
    MMIO_WRITE(port, (uint8_t)c);
    return (unsigned char)c;
}

static FILE console = FDEV_SETUP_STREAM(put, NULL, NULL, _FDEV_SETUP_WRITE);
// What only the C library refers to: link-time optimisation of handlers sees no use of it.
#define NF_KEPT __attribute__((used))
NF_KEPT FILE *const stdout = &console;
NF_KEPT FILE *const stderr = &console;

void init_printf(void *putp, void *putf)
{
    (void)putp;
    (void)putf;
}

// The same under the names of the small library that handlers may know.
int tfp_printf(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    int length = vprintf(format, arguments);
    va_end(arguments);
    return length;
}

int tfp_vsprintf(char *text, const char *format, va_list arguments)
{
    return vsprintf(text, format, arguments);
}

int tfp_vsnprintf(char *text, size_t room, const char *format, va_list arguments)
{
    return vsnprintf(text, room, format, arguments);
}

int tfp_snprintf(char *text, size_t room, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(text, room, format, arguments);
    va_end(arguments);
    return length;
}

struct output {
    FILE file;
    void *putp;
    void (*putf)(void *, char);
};

static int put_there(char c, FILE *file)
{
    struct output *output = (struct output *)file;

    output->putf(output->putp, c);
    return (unsigned char)c;
}

void tfp_format(void *putp, void (*putf)(void *, char), const char *format, va_list arguments)
{
    struct output output = {FDEV_SETUP_STREAM(put_there, NULL, NULL, _FDEV_SETUP_WRITE), putp,
                            putf};

    vfprintf(&output.file, format, arguments);
}

// There is no process to end: the handler is at fault.
NF_KEPT __attribute__((noreturn)) void _exit(int status)
{
    (void)status;
    for (;;)
        __asm__ volatile("ebreak");
}

NF_KEPT __attribute__((noreturn)) void abort(void) { _exit(1); }

NF_KEPT __attribute__((noreturn)) void __assert_func(const char *file, int line,
                                                     const char *function, const char *what)
{
    printf("%s:%d: %s: not true: %s\n", file, line, function ? function : "", what);
    abort();
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
