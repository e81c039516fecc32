// Counts how often each value comes, words being values below 1,024; the tail handler tells the
// host that it is complete.
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

#define VALUES 1024

__handler__ void histogram_ph(handler_args_t *args)
{
    task_t *task = args->task;
    volatile int32_t *counts = (volatile int32_t *)task->scratchpad[args->cluster_id];
    uint8_t *payload;
    uint32_t length;

    GET_IP_UDP_PLD(task->pkt_mem, payload, length);
    uint32_t *words = (uint32_t *)payload;
    for (uint32_t i = 0; i < length / 4; i++)
        amo_add(&counts[FAST_MOD(words[i], VALUES)], 1);
}

__handler__ void histogram_th(handler_args_t *args)
{
    task_t *task = args->task;
    uint64_t host = (uint64_t)task->host_mem_high << 32 | task->host_mem_low;
    spin_cmd_t command;

    (void)command;
    spin_write_to_host(host, 1, NUMBER);
}

void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **handler_mem_ptr)
{
    volatile handler_fn handlers[] = {NULL, histogram_ph, histogram_th};

    *hh = handlers[0];
    *ph = handlers[1];
    *th = handlers[2];
    *handler_mem_ptr = NULL;
}
