// test: check
#include "alkali.h"
#include "generic_handlers.h"

struct head {
    BITS_FIELD(12, kind);
    BITS_FIELD(20, number);
};

struct loose {
    BITS_FIELD(16, kind);
    int number;
};

void NET_RECV__behind(buf_t packet)
{
    struct head head;
    bufextract(packet, &head);
    buf_t out = bufinit();
    bufemit(out, packet);
    bufemit(out, &head);
    EXT__NET_SEND__net_send(out);
}

void TWO__packets(buf_t packet)
{
    buf_t out = bufinit();
    buf_t other = bufinit();
    bufemit(out, packet);
    EXT__NET_SEND__net_send(out);
    generate("NOBODY", packet);
}

void BOTH__names(buf_t packet)
{
    struct head head;
    struct loose loose;
    bufextract(packet, &loose);
    buf_t out = bufinit();
    bufemit(packet, &head);
    bufemit(out, &head);
    bufemit(out, packet);
    buf_t same = out;
    EXT__DMA_WRITE_REQ__dma_write(packet, &head);
}

int WORK__wrong(buf_t packet) { return 0; }

void START__it(buf_t packet)
{
    struct head head;
    bufextract(packet, &head);
    if (head.kind == 1)
        generate("TWO", packet);
    else if (head.kind == 2)
        generate("BOTH__names", packet);
    else if (head.kind == 3)
        generate("START", packet);
    else
        generate("WORK", packet);
}

void NET_RECV__again(buf_t packet)
{
    struct head head;
    bufextract(packet, &head);
}

void NET_RECV__second(buf_t packet) { }
