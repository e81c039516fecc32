"""Reads and writes of a store on one queue, or each in entries of their own: what `nicforge
validate flow` compares.

    python3 channels.py shared|separate             # prints the C

Frames hold requests of memcached's binary protocol with keys of 32 and values of 64 bytes. The NIC
side reads them, the host looks up or stores. On a shared queue a read's entry has room for a value
too.
"""

import sys

from nicforge.flow import (
    Discard,
    Drop,
    Element,
    FromNet,
    In,
    Out,
    Program,
    Queue,
    Struct,
    Table,
    packet,
    u8,
    u32,
    u64,
)

Key = Struct("key", b=u8[32])
Item = Struct("item", b=u8[64])
items = Table("items", "hash", Key, Item, 131072)
#: Sums of what was found, so that it is looked at.
found = Table("values_read", "array", u32, u64, 1)
SUM = "nf_add_value(&values_read, 0, nf_csum_fold(nf_csum_add(0, item)));\nout(opaque);"

#: Where the header of a request is, and the key behind the extras.
HEADER, EXTRAS = 50, 8


class Read(Element):
    inp = In(pkt=packet)
    get = Out(u32, Key)
    set = Out(u32, Key, Item)
    done = Out(packet)
    body = f"""
        uint8_t write = 0;
        uint32_t opaque = 0;
        struct key key;
        nf_load(pkt, {HEADER} + 1, &write);
        nf_load(pkt, {HEADER} + 12, &opaque);
        if (write) {{
            struct item item;
            nf_load(pkt, {HEADER} + 24 + {EXTRAS}, &key);
            nf_load(pkt, {HEADER} + 24 + {EXTRAS} + 32, &item);
            set(opaque, key, item);
        }} else {{
            nf_load(pkt, {HEADER} + 24, &key);
            get(opaque, key);
        }}
        done(pkt);
    """


class Widen(Element):
    """A read as an entry that all requests have."""

    inp = In(opaque=u32, key=Key)
    out = Out(u32, u8, Key, Item)
    body = "struct item none = {0};\nout(opaque, 0, key, none);"


class Mark(Element):
    inp = In(opaque=u32, key=Key, item=Item)
    out = Out(u32, u8, Key, Item)
    body = "out(opaque, 1, key, item);"


class Both(Element):
    inp = In(opaque=u32, write=u8, key=Key, item=Item)
    out = Out(u32)
    tables = (items, found)
    body = (
        "if (write)\n    nf_update(&items, key, item);\nelse\n    nf_lookup(&items, key, &item);\n"
        + SUM
    )


class Find(Element):
    inp = In(opaque=u32, key=Key)
    out = Out(u32)
    tables = (items, found)
    body = "struct item item;\nnf_lookup(&items, key, &item);\n" + SUM


class Put(Element):
    inp = In(opaque=u32, key=Key, item=Item)
    out = Out(u32)
    tables = (items, found)
    body = "nf_update(&items, key, item);\n" + SUM


def program(how: str) -> Program:
    network, read = FromNet(), Read()
    network >> read
    read.done >> Drop("its request is under way")
    if how == "shared":
        up = Queue("up", side="host", ordered=False)
        read.get >> Widen() >> up
        read.set >> Mark() >> up
        up >> Both() >> Discard(u32)
    else:
        up = Queue("up", side="host", ordered=False, channels=["gets", "sets"])
        read.get >> up["gets"] >> Find() >> Discard(u32, name="found")
        read.set >> up["sets"] >> Put() >> Discard(u32, name="stored")
    return Program("channels", network, ports=1)


if __name__ == "__main__":
    print(program(sys.argv[1]).source().text, end="")
