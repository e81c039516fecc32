// test: lower
#include "alkali.h"
#include "generic_handlers.h"

struct head {
    BITS_FIELD(48, to);
    BITS_FIELD(16, kind);
};

struct mark {
    BITS_FIELD(32, place);
    BITS_FIELD(32, count);
};

void EXT__LOG__note(void *data);
void EXT__TRACE__copy(buf_t packet, void *data);

ak_TABLE(64, BITS(32), struct mark, anno_MAX_REPLICA(2)) marks;

void NET_RECV__first(buf_t packet)
{
    struct head head;
    struct mark mark;
    bufextract(packet, (void *)&head);
    int place = head.kind;
    table_lookup(&marks, &place, &mark);
    mark.count = mark.count + 1;
    table_update(&marks, &place, &mark);
    if (head.kind == 9)
        generate("LATER", packet, &mark, head.kind);
    else if (head.kind == 8)
        generate("LATER__second", packet, &mark, 4);
    EXT__LOG__note(&mark);
}

void LATER__second(buf_t packet, struct mark *mark, int kind)
{
    if (mark->count > 5)
        EXT__TRACE__copy(packet, mark);
    else if (kind)
        EXT__NET_SEND__net_send(packet);
}
