// Writes eight bytes to host memory for every packet.
#include <handler.h>
#include <packets.h>

__handler__ void host_direct_ph(handler_args_t *args)
{
    task_t *task = args->task;
    uint64_t host = (uint64_t)task->host_mem_high << 32 | task->host_mem_low;
    spin_cmd_t command;

    spin_write_to_host(host, 0xdeadbeefdeadbeef, &command);
}

void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **handler_mem_ptr)
{
    volatile handler_fn handlers[] = {NULL, host_direct_ph, NULL};

    *hh = handlers[0];
    *ph = handlers[1];
    *th = handlers[2];
    *handler_mem_ptr = NULL;
}
