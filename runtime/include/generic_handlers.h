/* SPDX-License-Identifier: 0BSD
 *
 * generic_handlers.h - events that programs of Alkali generate for the outside. Others are declared
 * alike: `void EXT__EVENT__name(buf_t packet, void *data);` goes to the host.
 */
#ifndef ALKALI_GENERIC_HANDLERS_H
#define ALKALI_GENERIC_HANDLERS_H

#include "alkali.h"

/* Out to the network. */
void EXT__NET_SEND__net_send(buf_t packet);
/* Writes the first `size` bytes of the unread rest to the host's memory at `addr`, members of
 * *command. */
void EXT__DMA_WRITE_REQ__dma_write(buf_t packet, void *command);

#endif
