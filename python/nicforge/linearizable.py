"""Whether a history of reads and writes of one register is linearizable.

The search of Wing and Gong (1993) with Lowe's memory of configurations (2017): an operation may be
the next one if no other that is left ended before it began; a read must give the register's value;
what was never answered may have happened or not. A key of a store is a register of its own
(linearizability is local: Herlihy and Wing 1990), so histories are short.
"""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Operation:
    began: float
    #: Infinite if it was never answered.
    ended: float
    write: bool
    value: int


def linearizable(history: list[Operation], first: int = 0) -> bool:
    """Whether there is an order of the operations that explains all answers; the register begins
    with `first`."""
    operations = sorted(history, key=lambda each: (each.began, each.ended))
    everything = (1 << len(operations)) - 1
    answered = sum(1 << at for at, each in enumerate(operations) if each.ended != math.inf)
    seen = set()
    open_ = [(everything, first)]
    while open_:
        left, value = configuration = open_.pop()
        if left & answered == 0:
            return True
        if configuration in seen:
            continue
        seen.add(configuration)
        may, rest = [], left
        earliest = math.inf
        # Operations are sorted by their begin: those behind the earliest end cannot be next.
        while rest:
            at = (rest & -rest).bit_length() - 1
            rest &= rest - 1
            if operations[at].began > earliest:
                break
            earliest = min(earliest, operations[at].ended)
            may.append(at)
        # A read that fits now changes nothing, so it may as well be next.
        fits = [at for at in may if not operations[at].write and operations[at].value == value][:1]
        writes = sorted(
            (at for at in may if operations[at].write), key=lambda at: -operations[at].ended
        )
        open_ += [(left & ~(1 << at), operations[at].value) for at in fits or writes]
    return False


def histories(operations: dict[int, list[Operation]]) -> str:
    """The keys whose histories are not linearizable, for messages; empty if all are."""
    return ", ".join(str(key) for key, history in operations.items() if not linearizable(history))
