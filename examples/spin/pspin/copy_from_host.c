// Fetches as many bytes as the packet has from host memory over it, and sends them.
#include <handler.h>
#include <packets.h>

__handler__ void copy_from_host_ph(handler_args_t *args)
{
    task_t *task = args->task;
    uint64_t host = (uint64_t)task->host_mem_high << 32 | task->host_mem_low;
    uint32_t packet = (uint32_t)(uintptr_t)task->pkt_mem, size = (uint32_t)task->pkt_mem_size;
    spin_cmd_t command;

    spin_dma_from_host(host, packet, size, true, &command);
    spin_cmd_wait(command);
    spin_send_packet(task->pkt_mem, size, &command);
}

void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **handler_mem_ptr)
{
    volatile handler_fn handlers[] = {NULL, copy_from_host_ph, NULL};

    *hh = handlers[0];
    *ph = handlers[1];
    *th = handlers[2];
    *handler_mem_ptr = NULL;
}
