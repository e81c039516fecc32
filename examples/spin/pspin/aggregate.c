// Adds up all words of a message's packets; the tail handler writes the sum to host memory.
#include <handler.h>
#include <packets.h>

// PsPIN's own handlers pass no place for the command's number: the write happens, then the handler
// faults
// (-DLIKE_PSPIN).
#ifdef LIKE_PSPIN
#define NUMBER NULL
#else
#define NUMBER &command
#endif

__handler__ void aggregate_ph(handler_args_t *args)
{
    task_t *task = args->task;
    uint8_t *payload;
    uint32_t length, sum = 0;

    GET_IP_UDP_PLD(task->pkt_mem, payload, length);
    uint32_t *words = (uint32_t *)payload;
    for (uint32_t i = 0; i < length / 4; i++)
        sum += words[i];
    amo_add((volatile int32_t *)task->scratchpad[0], (int32_t)sum);
}

__handler__ void aggregate_th(handler_args_t *args)
{
    task_t *task = args->task;
    uint64_t host = (uint64_t)task->host_mem_high << 32 | task->host_mem_low;
    spin_cmd_t command;

    (void)command;
    spin_write_to_host(host, *(volatile uint32_t *)task->scratchpad[0], NUMBER);
}

void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **handler_mem_ptr)
{
    volatile handler_fn handlers[] = {NULL, aggregate_ph, aggregate_th};

    *hh = handlers[0];
    *ph = handlers[1];
    *th = handlers[2];
    *handler_mem_ptr = NULL;
}
