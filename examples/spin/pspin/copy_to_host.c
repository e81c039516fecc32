// Copies every packet to host memory. -DFROM_L2: from the NIC's packet memory. -DWAIT_SUSPEND:
// waits until it is there.
#include <handler.h>
#include <packets.h>

__handler__ void copy_to_host_ph(handler_args_t *args)
{
    task_t *task = args->task;
    uint64_t host = (uint64_t)task->host_mem_high << 32 | task->host_mem_low;
    spin_cmd_t command;

#ifdef FROM_L2
    uint32_t packet = (uint32_t)(uintptr_t)task->l2_pkt_mem;
#else
    uint32_t packet = (uint32_t)(uintptr_t)task->pkt_mem;
#endif
    spin_dma_to_host(host, packet, (uint32_t)task->pkt_mem_size, true, &command);
#ifdef WAIT_SUSPEND
    spin_cmd_wait(command);
#endif
}

void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **handler_mem_ptr)
{
    volatile handler_fn handlers[] = {NULL, copy_to_host_ph, NULL};

    *hh = handlers[0];
    *ph = handlers[1];
    *th = handlers[2];
    *handler_mem_ptr = NULL;
}
