// test: check
#include "alkali.h"
#include "generic_handlers.h"

struct head {
    BITS_FIELD(16, kind);
    BITS_FIELD(16, number);
};

struct entry {
    int key;
    struct head value;
};
struct entry *entries;

void NET_RECV__open(buf_t packet)
{
    struct head head;
    int kind;
    bufextract(packet, &head);
    kind = head.kind;
    table_lookup(entries, &kind, &head);
    if (kind == 4) {
        struct buf_tag made;
        bufemit(&made, &head);
        EXT__NET_SEND__net_send(&made);
        return;
    }
    bufemit(packet, &head);
    bufemit(packet, &head);
    EXT__NET_SEND__net_send(packet);
}
