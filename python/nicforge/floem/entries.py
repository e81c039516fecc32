"""Queues of entries by address: `queue_custom`, whose entries are structs that are copied in, and
`queue_default`, whose entries are memory that is filled in place.

An entry stays in memory until it was given back and the queue needs the room; a queue that makes
who enqueues wait has room for one more instead. floem_queue in runtime.h is one instance.
"""

from __future__ import annotations

from . import model
from .model import Composite, Element, Field, Input, Int, Output, type_name

q_buffer, q_entry = "q_buffer", "q_entry"


def _queue(name: str, size: int, insts: int) -> str:
    """The C name of a new queue's instances."""
    model.world.queues.append((f"floem_queue_{name}", size, insts))
    return model.world.queues[-1][0]


def _of(queue: str, insts: int) -> str:
    return f"assert(c >= 0 && c < {insts}); struct floem_queue *queue = &{queue}[c];"


def queue_custom(
    name,
    entry_type,
    size,
    insts,
    status_field,
    checksum=False,
    local=False,
    enq_blocking=False,
    enq_atomic=False,
    enq_output=False,
    deq_blocking=False,
    deq_atomic=False,
):
    """Classes of elements that copy a struct in, get one, and give it back."""
    ty, queue = type_name(entry_type), _queue(name, size, insts)
    status = status_field.name if isinstance(status_field, Field) else status_field

    class Enqueue(Element):
        def configure(self):
            self.inp = Input(f"{ty}*", Int)
            if enq_output:
                self.done = Output(f"{ty}*")

        def impl(self):
            self.run_c(
                f"({ty} *x, int c) = inp(); {_of(queue, insts)} while (floem_clean(queue));"
                f"if ({int(enq_blocking)} || !floem_full(queue)) {{"
                f"{ty} *to = floem_reserve(queue, sizeof *to, 0);"
                f"memcpy(to, x, offsetof({ty}, {status})); to->{status} = FLAG_OWN;"
                "floem_entry_of(to)->state = FLOEM_FULL; }"
                f"{'output { done(x); }' if enq_output else ''}"
            )

    class Dequeue(Element):
        def configure(self):
            self.inp, self.out = Input(Int), Output(q_buffer)

        def impl(self):
            self.run_c(
                f"int c = inp(); {_of(queue, insts)} q_buffer got = {{floem_get(queue), c}};"
                + _given(deq_blocking, "got")
            )

    class Release(Element):
        def configure(self):
            self.inp = Input(q_buffer)

        def impl(self):
            self.run_c(
                f"q_buffer got = inp(); {ty} *x = got.entry;"
                f"if (x) {{ x->{status} = 0; floem_entry_of(x)->state = FLOEM_RELEASED; }}"
            )

    return Enqueue, Dequeue, Release


def _given(waits: bool, values: str) -> str:
    """C that gives what was got; who waits for an entry gets none that is missing."""
    if not waits:
        return f"output {{ out({values}); }}"
    return f"if (!got.entry) floem_block(); output switch {{ case got.entry: out({values}); }}"


def queue_default(
    name,
    entry_size,
    size,
    insts,
    enq_blocking=False,
    deq_blocking=False,
    enq_atomic=False,
    deq_atomic=False,
    clean=False,
    qid_output=False,
    checksum=False,
):
    """Elements that reserve an entry, submit it, get one and give it back, and the element that
    gets entries whose room is needed."""
    queue = _queue(name, size, insts)

    class Clean(Element):
        def configure(self):
            self.inp, self.out = Input(q_buffer), Output(q_buffer)

        def impl(self):
            self.run_c("q_buffer got = inp(); output { out(got); }")

    class MakeRoom(Element):
        def configure(self):
            self.inp, self.out = Input(Int, Int), Output(q_buffer)

        def impl(self):
            self.run_c(
                f"(int length, int c) = inp(); {_of(queue, insts)} struct floem_entry *old;"
                "if (floem_full(queue)) while ((old = floem_clean(queue))) {"
                "q_buffer got = {old->bytes, c}; out(got); } output multiple;"
            )

    class Reserve(Element):
        def configure(self, blocking):
            self.inp, self.out, self.blocking = Input(Int, Int), Output(q_buffer), blocking

        def impl(self):
            self.run_c(
                f"(int length, int c) = inp(); {_of(queue, insts)} assert(length <= {entry_size});"
                f"q_buffer got = {{NULL, c}}; if ({int(self.blocking)} || !floem_full(queue)) {{"
                f"q_entry *entry = got.entry = floem_reserve(queue, {entry_size}, 0);"
                "entry->len = (length + 7) & ~7; } output { out(got); }"
            )

    cleaner = Clean() if clean else None

    class EnqueueReserve(Composite):
        def configure(self, gap=0, channel=0):
            self.inp, self.out = Input(Int, Int), Output(q_buffer)
            self.blocking = (
                enq_blocking[channel] if isinstance(enq_blocking, list) else enq_blocking
            )

        def impl(self):
            room = MakeRoom()
            self.inp >> room
            if cleaner is not None:
                room >> cleaner
            self.inp >> Reserve(configure=[bool(self.blocking)]) >> self.out

    class EnqueueSubmit(Element):
        def configure(self):
            self.inp = Input(q_buffer)

        def impl(self):
            self.run_c(
                "q_buffer got = inp(); q_entry *entry = got.entry;"
                "if (entry) { entry->flag = FLAG_OWN; floem_entry_of(entry)->state = FLOEM_FULL; }"
            )

    class DequeueGet(Element):
        def configure(self):
            self.inp = Input(Int)
            self.out = Output(q_buffer, Int) if qid_output else Output(q_buffer)

        def impl(self):
            self.run_c(
                f"int c = inp(); {_of(queue, insts)} q_buffer got = {{floem_get(queue), c}};"
                + _given(deq_blocking, "got, c" if qid_output else "got")
            )

    class DequeueRelease(Element):
        def configure(self):
            self.inp = Input(q_buffer)

        def impl(self):
            self.run_c(
                "q_buffer got = inp(); q_entry *entry = got.entry;"
                "if (entry) { entry->flag = 0; floem_entry_of(entry)->state = FLOEM_RELEASED; }"
            )

    return EnqueueReserve, EnqueueSubmit, DequeueGet, DequeueRelease, cleaner
