// PsPIN's interface for programs that put handlers on a NIC: execution contexts, the NIC's memory,
// handlers by name.
#ifndef __SPIN_H__
#define __SPIN_H__

#include <stdint.h>
#include <stdlib.h>

#include "spin_hw_conf.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPIN_SUCCESS 0
#define SPIN_ERR 1

typedef uint32_t mem_addr_t;
typedef uint32_t mem_size_t;
typedef uint32_t spin_nic_addr_t;
typedef uint64_t host_addr_t;

// Memory and handlers of packets. A handler at 0 is not there.
typedef struct spin_ec {
    mem_addr_t handler_mem_addr;
    mem_size_t handler_mem_size;
    host_addr_t host_mem_addr;
    mem_size_t host_mem_size;
    mem_addr_t hh_addr;
    mem_size_t hh_size;
    mem_addr_t ph_addr;
    mem_size_t ph_size;
    mem_addr_t th_addr;
    mem_size_t th_size;
    mem_addr_t scratchpad_addr[NUM_CLUSTERS];
    mem_size_t scratchpad_size[NUM_CLUSTERS];
} __attribute__((__packed__)) spin_ec_t;

// Take effect while the simulation runs; the callback for their end gets user_ptr.
int spin_nicmem_write(spin_nic_addr_t addr, void *data, size_t size, void *user_ptr);
int spin_nicmem_read(spin_nic_addr_t addr, void *data, size_t size, void *user_ptr);
// Address of a function of an image. Outputs stay as they are if the image has none of that name.
int spin_find_handler_by_name(const char *binfile, const char *handler_name,
                              spin_nic_addr_t *handler_addr, size_t *handler_size);

#ifdef __cplusplus
}
#endif

#endif
