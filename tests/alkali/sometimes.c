/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sometimes: a program in the interface of Alkali that sends a packet on some ways only, with the
 * rest of what came in or without.
 */
#include "alkali.h"
#include "generic_handlers.h"

struct head {
    BITS_FIELD(8, kind);
    BITS_FIELD(24, number);
};

ak_TABLE(16, BITS(8), BITS(32), ) kinds;

void NET_RECV__answer(buf_t packet)
{
    struct head head;
    bufextract(packet, &head);
    BITS(8) kind = head.kind & 15;
    BITS(32) before;
    table_lookup(&kinds, &kind, &before);
    before += head.number;
    table_update(&kinds, &kind, &before);
    if (kind == 3)
        return;
    buf_t answer = bufinit();
    head.number = before;
    bufemit(answer, &head);
    if (kind > 5)
        bufemit(answer, packet);
    if (kind != 7)
        EXT__NET_SEND__net_send(answer);
}
