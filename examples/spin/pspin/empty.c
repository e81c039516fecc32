// Does nothing, NUM_INT_OP times: what the runtime itself costs.
#include <handler.h>
#include <packets.h>

#ifndef NUM_INT_OP
#define NUM_INT_OP 0
#endif

__handler__ void empty_ph(handler_args_t *args)
{
    (void)args;
    for (int i = 0; i < NUM_INT_OP; i++)
        __asm__ volatile("");
}

void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **handler_mem_ptr)
{
    volatile handler_fn handlers[] = {NULL, empty_ph, NULL};

    *hh = handlers[0];
    *ph = handlers[1];
    *th = handlers[2];
    *handler_mem_ptr = NULL;
}
