"""Messages from NIC to host of which the host uses a part: what `nicforge validate flow` measures
transfers with.

    python3 fields.py BYTES LIVE             # prints the C

Every frame makes a message of BYTES bytes, of which the host reads LIVE.
"""

import sys

from nicforge.flow import (
    Discard,
    Drop,
    Element,
    Field,
    FromNet,
    In,
    Out,
    Program,
    Queue,
    State,
    Struct,
    Table,
    packet,
    u8,
    u32,
    u64,
)

#: Sums of what the host read, so that it reads.
read = Table("read", "array", u32, u64, 1)


def program(whole: int, live: int) -> Program:
    Used = Struct("used", b=u8[live])
    Rest = Struct("rest", b=u8[max(whole - live, 1)])
    useds, rests = Table("useds", "array", u32, Used, 64), Table("rests", "array", u32, Rest, 64)

    class Message(State):
        used = Field(Used)
        rest = Field(Rest)

    class Make(Element):
        inp = In(pkt=packet)
        out = Out(u32)
        done = Out(packet)
        state = Message
        tables = (useds, rests)
        # Zeros at the end of a string would not cross.
        body = f"""
            uint32_t at = 0;
            nf_load(pkt, 0, &at);
            struct used used;
            struct rest rest;
            nf_lookup(&useds, at % 64, &used);
            nf_lookup(&rests, at % 64, &rest);
            used.b[{live - 1}] = 1;
            rest.b[{max(whole - live, 1) - 1}] = 1;
            state->used = used;
            state->rest = rest;
            out(at);
            done(pkt);
        """

    class Use(Element):
        inp = In(first=u32)
        out = Out(u32)
        state = Message
        tables = (read,)
        body = "nf_add_value(&read, 0, nf_csum_fold(nf_csum_add(0, state->used)));\nout(first);"

    network, make = FromNet(), Make()
    network >> make
    make.done >> Drop("its message is under way")
    make.out >> Queue("up", side="host", ordered=False) >> Use() >> Discard(u32)
    return Program("fields", network, ports=2)


if __name__ == "__main__":
    print(program(int(sys.argv[1]), int(sys.argv[2])).source().text, end="")
