"""The rule of `nicforge.flow.Cache` under random interleavings, and what is refused.

The model has the rule's parts and nothing else: a cache that may lose any entry at any time, a queue to the host, a
store, a queue back, and packets that may be lost on either queue. What the real one does, tests/test_kvs.py looks at.
"""

import collections
import random

import pytest
from nicforge.flow import Cache, FlowError, packet, u32, u64

KEYS, STEPS = 3, 400


class Model:
    """One run: every step is chosen at random. `ahead`: answers leave before the cache changes, which is wrong."""

    def __init__(self, seed: int, ahead: bool = False):
        self.random, self.ahead = random.Random(seed), ahead
        self.cache: dict[int, int] = {}
        self.store: dict[int, int] = collections.defaultdict(int)
        self.up, self.back = collections.deque(), collections.deque()
        self.now, self.version = 0, 0
        #: (key, began, ended, version read or written, is a write); writes that were never answered end at infinity.
        self.history: list[list] = []

    def begin(self, write: bool) -> None:
        key = self.random.randrange(KEYS)
        entry = [key, self.now, float("inf"), 0, write]
        self.history.append(entry)
        if write:
            self.version += 1
            entry[3] = self.version
        elif key in self.cache:
            entry[2], entry[3] = self.now, self.cache[key]
            return
        self.up.append(entry)

    def host(self) -> None:
        entry = self.up.popleft()
        if entry[4]:
            self.store[entry[0]] = entry[3]
        else:
            entry[3] = self.store[entry[0]]
        if self.ahead:
            entry[2] = self.now
        self.back.append((entry, self.store[entry[0]]))

    def settle(self) -> None:
        entry, value = self.back.popleft()
        key = entry[0]
        if not entry[4] or key in self.cache:
            self.cache[key] = value
        if entry[2] == float("inf"):
            entry[2] = self.now

    def lose(self, queue: collections.deque) -> None:
        del queue[self.random.randrange(len(queue))]

    def run(self) -> list[list]:
        for self.now in range(STEPS):
            steps = [lambda: self.begin(self.random.random() < 0.4)] * 3
            steps += [self.host] * 3 if self.up else []
            steps += [self.settle] * 3 if self.back else []
            steps += [lambda: self.cache.pop(self.random.choice(list(self.cache)))] if self.cache else []
            for queue in (self.up, self.back):
                if queue and self.random.random() < 0.05:
                    steps.append(lambda queue=queue: self.lose(queue))
            self.random.choice(steps)()
        return self.history


def stale(history: list[list], order: dict[int, list[int]]) -> str:
    """Why a history is not linearizable; empty if it is. `order`: the versions of each key as the host stored them.

    Reads of one key must not go back: one that begins after another ended, or after a write was answered, finds that version
    or a later one in the host's order, and none that was not written by then.
    """
    place = {key: {version: at for at, version in enumerate([0, *versions])} for key, versions in order.items()}
    done = [entry for entry in history if entry[2] != float("inf")]
    for key, began, ended, version, write in done:
        if version not in place[key]:
            return f"key {key}: {version} was never stored"
        for other_key, _, other_ended, other_version, _ in done:
            if other_key == key and other_ended < began and not write:
                if place[key][other_version] > place[key][version]:
                    return (
                        f"key {key}: {version} read from {began} to {ended}, but {other_version} was known at {other_ended}"
                    )
    return ""


def check(seed: int, **how) -> str:
    model = Model(seed, **how)
    order: dict[int, list[int]] = {key: [] for key in range(KEYS)}
    host = model.host

    def noting():
        entry = model.up[0]
        host()
        if entry[4]:
            order[entry[0]].append(entry[3])

    model.host = noting
    return stale(model.run(), order)


def test_reads_never_go_back_whatever_is_lost_evicted_or_filled_in_between():
    for seed in range(200):
        assert check(seed) == "", seed


def test_the_check_sees_answers_that_leave_before_the_cache_has_changed():
    assert any(check(seed, ahead=True) for seed in range(200))


def test_a_cache_has_a_name_in_c_and_one_packet():
    with pytest.raises(FlowError):
        Cache("no name", u32, u64, 16)
    near = Cache("near", u32, u64, 16)
    with pytest.raises(FlowError, match="one packet"):
        near.get("key", key=u32, other=packet)
    with pytest.raises(FlowError):
        Cache("near", u32, u64, 0)
