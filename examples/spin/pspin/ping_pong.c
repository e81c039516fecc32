// Sends every packet back to where it came from. -DFROM_L2: from the NIC's packet memory instead of
// the cluster's copy, to which the change is not made. -DWAIT_SUSPEND, -DWAIT_POLL: the handler
// waits until the packet has left.
#include <handler.h>
#include <packets.h>

__handler__ void ping_pong_ph(handler_args_t *args)
{
    task_t *task = args->task;
    ip_hdr_t *ip = (ip_hdr_t *)task->pkt_mem;
    udp_hdr_t *udp = (udp_hdr_t *)((uint8_t *)task->pkt_mem + ip->ihl * 4);
    uint32_t address = ip->source_id;
    uint16_t port = udp->src_port;
    spin_cmd_t command;

    ip->source_id = ip->dest_id;
    ip->dest_id = address;
    udp->src_port = udp->dst_port;
    udp->dst_port = port;
#ifdef FROM_L2
    spin_send_packet(task->l2_pkt_mem, (uint32_t)task->pkt_mem_size, &command);
#else
    spin_send_packet(task->pkt_mem, (uint32_t)task->pkt_mem_size, &command);
#endif
#if defined(WAIT_SUSPEND)
    spin_cmd_wait(command);
#elif defined(WAIT_POLL)
    bool done = false;
    while (!done)
        spin_cmd_test(command, &done);
#endif
}

void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **handler_mem_ptr)
{
    volatile handler_fn handlers[] = {NULL, ping_pong_ph, NULL};

    *hh = handlers[0];
    *ph = handlers[1];
    *th = handlers[2];
    *handler_mem_ptr = NULL;
}
