// Requests from handlers to a program on the host: every HPU has a page of host memory with a flag
// and, 64 bytes on, room for data. The host answers by writing a flag with the same number into the
// NIC's memory.
#pragma once

#include <stdint.h>

#include "nf_spin_port.h"
#include "spin_conf.h"

#define DMA_BUS_WIDTH 512
#define DMA_ALIGN (DMA_BUS_WIDTH / 8)

typedef union {
    uint64_t data;
    struct {
        uint8_t dma_id;
        uint32_t len;
        uint16_t hpu_id;
    } __attribute__((__packed__));
} fpspin_flag_t;
_Static_assert(sizeof(fpspin_flag_t) == 8, "a flag is written in one piece");

#define HPU_ID(args) ((args)->hpu_gid)
#define HOST_ADDR(args) (((uint64_t)(args)->task->host_mem_high << 32) | (args)->task->host_mem_low)
#define HOST_ADDR_HPU(args) (HOST_ADDR(args) + HPU_ID(args) * PAGE_SIZE)
#define HOST_PLD_ADDR(args) (HOST_ADDR_HPU(args) + DMA_ALIGN)

// Number of each core's last request, in its cluster's memory; where clusters have no data of their
// own, for all.
#ifdef __riscv
extern volatile uint8_t dma_idx[NUM_CLUSTER_HPUS];
#define NF_SPIN_DMA_IDX(args) ((args)->hpu_id)
#else
extern volatile uint8_t dma_idx[CORE_COUNT];
#define NF_SPIN_DMA_IDX(args) ((args)->hpu_gid)
#endif

// Whether a host program has given memory with a page for every HPU.
static inline bool fpspin_check_host_mem(handler_args_t *args)
{
    return HOST_ADDR(args) != 0 && args->task->host_mem_size >= CORE_COUNT * PAGE_SIZE;
}

// Tells the host that `len` bytes are there and waits for its answer, however long that takes.
static inline fpspin_flag_t fpspin_host_req(handler_args_t *args, uint32_t len)
{
    fpspin_flag_t request = {.data = 0}, answer;
    spin_cmd_t command;

    request.dma_id = ++dma_idx[NF_SPIN_DMA_IDX(args)];
    request.len = len;
    request.hpu_id = (uint16_t)HPU_ID(args);
    spin_write_to_host(HOST_ADDR_HPU(args), request.data, &command);
    spin_cmd_wait(command);
    do {
        nf_spin_pause();
        answer.data = __host_data.flag[HPU_ID(args)];
    } while (answer.dma_id != request.dma_id);
    if (answer.hpu_id != request.hpu_id)
        printf("the host answered HPU %d, not %d\n", answer.hpu_id, request.hpu_id);
    return answer;
}
