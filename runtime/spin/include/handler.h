// sPIN's interface for handlers: the task, locks, copies inside the NIC, and commands to send
// packets and reach host memory.
//
// Interface of sPIN (Hoefler et al., SC'17) as PsPIN (Di Girolamo et al., ISCA'21) and FPsPIN have
// it. Commands take effect before their number is stored, so that a wrong pointer for it loses
// nothing but the handler.
#pragma once

#include "pspin.h"
#include "util.h"
#include "spin_conf.h"
#include "spin_dma.h"
#include "hwsched.h"

#define __handler__ __attribute__((used))

#define SPIN_DMA_LOC2EXT 0
#define SPIN_DMA_EXT2LOC 1
#define SPIN_OK 0x0
#define SPIN_FAIL 0x1

// Payload of a PsPIN packet (which starts with its IP header, lengths in the machine's own byte
// order).
#define GET_IP_UDP_PLD(pkt_ptr, pkt_pld_ptr, pkt_pld_len)                                          \
    {                                                                                              \
        ip_hdr_t *ip_hdr = (ip_hdr_t *)(pkt_ptr);                                                  \
        pkt_pld_len = ip_hdr->length - sizeof(ip_hdr_t) - sizeof(udp_hdr_t);                       \
        pkt_pld_ptr = (uint8_t *)(pkt_ptr) + ip_hdr->ihl * 4 + sizeof(udp_hdr_t);                  \
    }

typedef futex_t spin_lock_t;
typedef dma_t spin_dma_t;
typedef uint32_t spin_cmd_t;

typedef struct spin_rw_lock {
    spin_lock_t glock;
    volatile int32_t num_readers;
} spin_rw_lock_t;

#ifdef __riscv
#define NF_SPIN_PACKED __attribute__((__packed__))
#else
#define NF_SPIN_PACKED
#endif

// On RISC-V this lies over the unit's registers, so nothing in it may move. There are always four
// places for scratchpads.
typedef struct task {
    void *handler_mem;
    size_t handler_mem_size;
    void *pkt_mem;       // in the cluster's own memory
    size_t pkt_mem_size; // bytes
    void *scratchpad[NB_CLUSTERS];
#if NB_CLUSTERS < 4
    uint32_t unused_0[4 - NB_CLUSTERS];
#endif
    size_t scratchpad_size[NB_CLUSTERS];
#if NB_CLUSTERS < 4
    uint32_t unused_1[4 - NB_CLUSTERS];
#endif
    uint32_t host_mem_high;
    uint32_t host_mem_low;
    size_t host_mem_size;
    void *l2_pkt_mem;
    uint32_t home_cluster_id;
    uint32_t flow_id;
} NF_SPIN_PACKED task_t;

typedef struct handler_args {
    task_t *task;
    uint32_t hpu_gid;
    uint32_t cluster_id;
    uint32_t hpu_id;
} handler_args_t;

typedef void (*handler_fn)(handler_args_t *);

// Every image has one. It is called once, and names the handlers, so that they stay.
void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **handler_mem_ptr);

static inline int spin_dma(void *source, void *dest, size_t size, int direction, int options,
                           spin_dma_t *xfer)
{
    (void)direction;
    (void)options;
    if (size == 0)
        return SPIN_FAIL;
    *xfer = spin__memcpy_nonblk(source, dest, (uint32_t)size);
    return SPIN_OK;
}

static inline int spin_dma_wait(spin_dma_t xfer)
{
    spin__wait_for_tf_completion(xfer);
    return SPIN_OK;
}

static inline int spin_dma_test(spin_dma_t xfer, uint32_t *completed)
{
    *completed = spin__tf_completed(xfer);
    return SPIN_OK;
}

static inline int spin_lock_init(spin_lock_t *lock)
{
    amo_store(lock, 0);
    return SPIN_OK;
}

// 1: taken. 0: somebody has it.
static inline int spin_lock_try_lock(spin_lock_t *lock) { return futex_try_lock(lock); }

static inline int spin_lock_lock(spin_lock_t *lock)
{
    futex_lock_s(lock);
    return SPIN_OK;
}

static inline int spin_lock_unlock(spin_lock_t *lock)
{
    futex_unlock(lock);
    return SPIN_OK;
}

// The first reader takes the lock for all. A second one may go on before the first has it: that is
// how this lock is defined.
static inline int spin_rw_lock_r_lock(spin_rw_lock_t *lock)
{
    if (amo_add(&lock->num_readers, 1) == 0)
        spin_lock_lock(&lock->glock);
    return SPIN_OK;
}

static inline int spin_rw_lock_r_unlock(spin_rw_lock_t *lock)
{
    if (amo_add(&lock->num_readers, -1) == 1)
        spin_lock_unlock(&lock->glock);
    return SPIN_OK;
}

static inline int spin_rw_lock_w_lock(spin_rw_lock_t *lock) { return spin_lock_lock(&lock->glock); }

static inline int spin_rw_lock_w_unlock(spin_rw_lock_t *lock)
{
    return spin_lock_unlock(&lock->glock);
}

// Waits for a command's end.
static inline int spin_cmd_wait(spin_cmd_t handle)
{
    nf_spin_command_wait(handle);
    return SPIN_OK;
}

static inline int spin_cmd_test(spin_cmd_t handle, bool *completed)
{
    *completed = nf_spin_command_done(handle);
    return SPIN_OK;
}

// Sends a whole frame, at most 2048 bytes.
static inline int spin_send_packet(void *data, uint32_t length, spin_cmd_t *handle)
{
    *handle = nf_spin_command(NF_SPIN_SEND, 0, 0, (uint32_t)(uintptr_t)data, 0, length);
    return SPIN_OK;
}

static inline int spin_rdma_put(uint32_t dest, void *data, uint32_t length, spin_cmd_t *handle)
{
    *handle = nf_spin_command(NF_SPIN_SEND, dest, 1, (uint32_t)(uintptr_t)data, 0, length);
    return SPIN_OK;
}

static inline int spin_dma_to_host(uint64_t host_addr, uint32_t nic_addr, uint32_t length,
                                   bool generate_event, spin_cmd_t *xfer)
{
    *xfer = nf_spin_command(NF_SPIN_HOST_DMA | generate_event, (uint32_t)host_addr,
                            (uint32_t)(host_addr >> 32), nic_addr, length, 1);
    return SPIN_OK;
}

static inline int spin_dma_from_host(uint64_t host_addr, uint32_t nic_addr, uint32_t length,
                                     bool generate_event, spin_cmd_t *xfer)
{
    *xfer = nf_spin_command(NF_SPIN_HOST_DMA | generate_event, (uint32_t)host_addr,
                            (uint32_t)(host_addr >> 32), nic_addr, length, 0);
    return SPIN_OK;
}

// Writes eight bytes to host memory. The third word holds their number, and says that they are in
// the command itself.
static inline int spin_write_to_host(uint64_t host_addr, uint64_t user_data, spin_cmd_t *xfer)
{
    *xfer = nf_spin_command(NF_SPIN_HOST_WRITE, (uint32_t)host_addr, (uint32_t)(host_addr >> 32),
                            8 << 1 | 1, (uint32_t)user_data, (uint32_t)(user_data >> 32));
    return SPIN_OK;
}

#define spin_host_write spin_write_to_host
