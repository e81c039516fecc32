"""Modules of Floem whose values are addresses: packets, entries of queues, states with pointers."""

import struct

import pytest
from test_floem import floem, module, verdict

PACKETS = r"""
    from floem import *

    class Head(State):
        kind, length = Field(Uint(16)), Field(Uint(32))
        rest = Field(Array(Uint(8)))

    class Total(State):
        count = Field(Int)
        sums = Field(Array(Int, 2))
        def init(self, first=0):
            self.count, self.sums = first, lambda x: x + "[1] = 5"

    total = Total(init=[7])

    class Answer(Element):
        this = Persistent(Total)
        def configure(self):
            self.inp = Input(SizeT, "void*", "void*")
            self.flow, self.drop = Output(SizeT, "void*", "void*"), Output("void*", "void*")
            self.this = total
        def impl(self):
            self.run_c(r'''
                (size_t size, void* pkt, void* buff) = inp();
                Head* head = (Head*) pkt;
                this->sums[1] += head->length;
                printf("%d %d %d\n", this->count++, head->kind, this->sums[1]);
                head->rest[0]++;
                output switch { case head->kind == 1: flow(size, pkt, buff); else: drop(pkt, buff); }
            ''')

    class run(Segment):
        def impl(self):
            from_net, answer = net.FromNet(), Answer()
            from_net >> net.HTON(configure=["Head"]) >> answer
            answer.flow >> net.ToNet()
            from_net.nothing >> library.Drop()
            answer.drop >> net.FromNetFree()

    run("run", process="wire")
    c = Compiler()
    c.testing = "usleep(1);"
    c.generate_code_and_run("7 1 8 8 2 12".split())
"""


def capture(path, *packets):
    head = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)
    records = [struct.pack("<IIII", 0, 0, len(one), len(one)) + one for one in packets]
    path.write_bytes(b"".join([head, *records]))
    return path


def test_packets_are_memory(tmp_path):
    packets = [struct.pack(">HI", kind, length) + b"abc" for kind, length in ((1, 3), (2, 4))]
    frames = capture(tmp_path / "frames.pcap", *packets)
    said = floem("survey", "--frames", frames, module(tmp_path, PACKETS)).stdout
    assert said.splitlines()[0].endswith(": right: packets sent: 1"), said


def test_frames_that_are_not_there(tmp_path):
    said = floem("run", "--frames", tmp_path / "none", module(tmp_path, PACKETS))
    assert said.returncode == 2 and "there is no such capture" in said.stderr


ENTRIES = r"""
    from floem import *

    class Tuple(State):
        value, status, pad = Field(Int), Field(Uint(8)), Field(Uint(8))

    Enq, Deq, Release = queue.queue_custom(
        "line", Tuple, 2, 1, Tuple.status, enq_output=True, deq_blocking=True)
    Reserve, Submit, Get, Free, clean = queue.queue_default("slots", 32, 1, 1, clean=True)

    class Done(Element):
        def configure(self):
            self.inp = Input(Pointer(Tuple))
        def impl(self):
            self.run_c(r'printf("put%d\n", inp()->value);')

    class put(CallableSegment):
        def configure(self):
            self.inp = Input(Pointer(Tuple), Int)
        def impl(self):
            self.inp >> Enq() >> Done()

    class get(CallableSegment):
        def configure(self):
            self.inp, self.out = Input(Int), Output(queue.q_buffer)
        def impl(self):
            self.inp >> Deq() >> self.out

    class give(CallableSegment):
        def configure(self):
            self.inp = Input(queue.q_buffer)
        def impl(self):
            self.inp >> Release()

    class Fill(Element):
        def configure(self):
            self.entry, self.value = Input(queue.q_buffer), Input(Int)
            self.out = Output(queue.q_buffer)
        def impl(self):
            self.run_c(r'''
                q_buffer buff = entry();
                int v = value();
                if (buff.entry) *(int *)((q_entry *)buff.entry + 1) = v;
                printf(buff.entry ? "in%d\n" : "full%d\n", v);
                output switch { case buff.entry: out(buff); }
            ''')

    class Split(Element):
        def configure(self):
            self.inp, self.size, self.value = Input(Int), Output(Int, Int), Output(Int)
        def impl(self):
            self.run_c("int v = inp(); output { value(v); size(4, 0); }")

    class Old(Element):
        def configure(self):
            self.inp = Input(queue.q_buffer)
        def impl(self):
            self.run_c(r'q_buffer b = inp(); printf("old%d\n", *(int *)((q_entry *)b.entry + 1));')

    class slot(CallableSegment):
        def configure(self):
            self.inp = Input(Int)
        def impl(self):
            split, fill = Split(), Fill()
            self.inp >> split
            split.value >> fill.value
            split.size >> Reserve() >> fill.entry
            fill >> Submit()
            clean >> Old()

    class take(CallableSegment):
        def configure(self):
            self.inp = Input(Int)
        def impl(self):
            self.inp >> Get() >> Free()

    for segment in (put, get, give, slot, take):
        segment(segment.__name__)
    c = Compiler()
    c.testing = r'''
        Tuple tuples[3] = {{1}, {2}, {3}};
        for (int i = 0; i < 3; i++) put(&tuples[i], 0);
        q_buffer got = get(0);
        out(((Tuple *)got.entry)->value);
        give(got);
        put(&tuples[2], 0);
        for (int i = 0; i < 2; i++) out(((Tuple *)get(0).entry)->value);
        slot(1); slot(2); take(0); slot(3);
    '''
    c.generate_code_and_run("put1 put2 put3 1 put3 2 3 in1 full2 old1 in3".split())
"""


def test_entries_of_queues_are_memory(tmp_path):
    assert verdict(tmp_path, ENTRIES) == "right"


SIZES = r"""
    from floem import *

    GetStart, GetEnd, SetStart, SetEnd, CacheState = cache_smart.smart_cache_with_state(
        "near", (Pointer(Int), "key", "keylen"), [(Pointer(Int), "value", "length")], var_size=True)
    Put, Take, Clean = queue_smart.smart_queue("up", 64, 8, 1, 1)

    class Item(CacheState):
        key = Field(Pointer(Int), size="state->keylen")
        value = Field(Pointer(Int), size="state->length")
        keylen, length = Field(Int), Field(Int)

    class Keep(ElementOneInOut):
        def configure(self):
            self.inp, self.out = Input(Int), Output()
        def impl(self):
            self.run_c('''int x = inp(); state.key = &x; state.keylen = sizeof x; state.qid = 0;
                output { out(); }''')

    class Square(ElementOneInOut):
        def impl(self):
            self.run_c(r'''
                int y = *state->key * *state->key;
                state->value = &y;
                state->length = sizeof y;
                printf("far\n");
                output { out(); }
            ''')

    class Say(Element):
        def configure(self):
            self.inp = Input()
        def impl(self):
            self.run_c(r'printf("%d=%d\n", *state.key, *state.value);')

    class main(Flow):
        state = PerPacket(Item)
        def impl(self):
            class ask(CallableSegment):
                def configure(self):
                    self.inp = Input(Int)
                def impl(self):
                    self.inp >> Keep() >> GetStart() >> Put().inp[0]
            class far(Segment):
                def impl(self):
                    self.core_id >> Take() >> Square() >> GetEnd() >> Say()
            ask("ask")
            far("far")

    c = Compiler(main)
    c.testing = "ask(3); ask(4); sleep(1); ask(3);"
    c.generate_code_and_run("far 3=9 far 4=16 3=9".split())
"""


def test_what_pointers_with_sizes_point_to_goes_along(tmp_path):
    assert verdict(tmp_path, SIZES) == "right"


# Who takes may ask before anybody gave.
@pytest.mark.parametrize("first", ["", pytest.param("sleep(1); ", marks=pytest.mark.soak)])
def test_two_processes_and_threads_without_a_queue(tmp_path, first):
    for name, calls in (("one", f"{first}put(4); put(5);"), ("other", "out(get()); out(get());")):
        text = f'#include "{name}.h"\nint main(int n, char *words[]) {{ init(words); {calls} }}\n'
        (tmp_path / f"{name}_main.c").write_text(text)
    text = """
        from floem import *
        first, second = Identity(configure=[Int]), Inc(configure=[Int])
        first >> second
        APIThread("put", [Int], None).run(first)
        APIThread("get", [], Int).run(second)
        class one(Segment):
            def impl(self):
                Constant(configure=[Pointer(Int), "NULL"]) >> library.Drop()
        one("here", process="one")
        one("there", process="other")
        c = Compiler()
        c.generate_code_as_header()
        c.compile_and_run(["one_main", "other_main"])
    """
    assert floem("run", module(tmp_path, text)).stdout.split("\n")[0] == "5 6"
