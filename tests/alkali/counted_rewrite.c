/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * counted_rewrite: a program in the interface of Alkali. Members of odd widths, a table with an
 * option, two headers and the rest of the packet emitted to a new one, and a write to the host's
 * memory.
 */
#include "alkali.h"
#include "generic_handlers.h"

struct outer {
    BITS_FIELD(48, to);
    BITS_FIELD(48, from);
    BITS_FIELD(4, version);
    BITS_FIELD(12, tag);
};

struct inner {
    BITS_FIELD(32, flow);
    BITS_FIELD(16, length);
    BITS_FIELD(16, sum);
    BITS_FIELD(64, stamp);
};

struct seen {
    BITS_FIELD(32, packets);
    BITS_FIELD(40, bytes);
    BITS_FIELD(24, last);
};

struct write {
    BITS_FIELD(64, addr);
    BITS_FIELD(32, size);
};

ak_TABLE(64, BITS(32), struct seen, anno_MAX_REPLICA(4)) flows;
ak_TABLE(64, BITS(16), BITS(32)) tags;

void NET_RECV__count(buf_t packet)
{
    struct outer outer, turned;
    struct inner inner;
    struct seen seen;
    bufextract(packet, (void *)&outer);
    bufextract(packet, &inner);

    int flow = inner.flow;
    table_lookup(&flows, &flow, &seen);
    seen.packets++;
    seen.bytes += inner.length;
    seen.last = inner.stamp;
    table_update((void *)flows, (void *)&flow, (void *)&seen);

    BITS(16) tag = outer.tag;
    BITS(32) count;
    table_lookup(&tags, &tag, &count);
    count = count + 3 - outer.version;
    table_update(&tags, &tag, &count);

    turned.to = outer.from;
    turned.from = outer.to - 1;
    turned.version = outer.version + 1;
    turned.tag = outer.tag ^ count;
    inner.stamp = seen.bytes + seen.last;
    inner.sum = inner.sum - seen.packets;

    struct write command;
    command.addr = inner.stamp;
    command.size = 24;
    buf_t out = bufinit();
    bufemit(out, &turned);
    bufemit(out, &inner);
    EXT__DMA_WRITE_REQ__dma_write(packet, &command);
    bufemit(out, packet);
    EXT__NET_SEND__net_send(out);
}
