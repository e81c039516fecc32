// The copy engine inside the NIC, under the names of the lower layer. `handler.h` has spin_dma and
// its companions.
#pragma once

#include "nf_spin_port.h"

static inline uint32_t spin__memcpy_nonblk(void *source, void *dest, uint32_t size)
{
    return nf_spin_copy(source, dest, size);
}

static inline void spin__wait_for_tf_completion(uint32_t xfer)
{
    while (!nf_spin_copy_done(xfer)) {
    }
}

static inline uint32_t spin__tf_completed(uint32_t xfer) { return nf_spin_copy_done(xfer); }
