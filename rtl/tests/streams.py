"""Streams for tests: senders and receivers that stall at random, and check the rules of valid and
ready."""

import os
import random

from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

random.seed(1)


SOAK = "NICFORGE_SOAK" in os.environ


def share(steps):
    """A sixth of a long test's steps, which `make test` is content with; all in `make soak`."""
    return steps if SOAK else steps // 6


class Source:
    """Offers items (tuples, one value per signal of `fields`) and keeps each on the wires until it
    is taken."""

    def __init__(self, valid, ready, fields, stall=0.0):
        self.valid, self.ready, self.fields, self.stall = valid, ready, fields, stall
        self.items, self.taken, self.offering = [], [], False
        valid.value = 0

    def edge(self):
        if self.offering and (self.ready is None or int(self.ready.value)):
            self.taken.append(self.items.pop(0))
            self.offering = False
        if not self.offering and self.items and random.random() >= self.stall:
            self.offering = True
            for field, value in zip(self.fields, self.items[0], strict=True):
                field.value = value
        self.valid.value = int(self.offering)

    def clear(self):
        self.items, self.taken, self.offering = [], [], False
        self.valid.value = 0


class Sink:
    """Takes items, and checks that what is offered stays until it is taken."""

    def __init__(self, valid, ready, fields, stall=0.0):
        self.valid, self.ready, self.fields, self.stall = valid, ready, fields, stall
        self.got, self.held, self.accepting = [], None, ready is None
        if ready is not None:
            ready.value = 0

    def edge(self):
        if int(self.valid.value):
            item = tuple(int(field.value) for field in self.fields)
            assert self.held in (None, item), f"{item} replaced {self.held}, which nobody had taken"
            if self.accepting:
                self.got.append(item)
            self.held = None if self.accepting else item
        else:
            assert self.held is None, f"{self.held} was withdrawn before anybody had taken it"
        if self.ready is not None:
            self.accepting = random.random() >= self.stall
            self.ready.value = int(self.accepting)

    def clear(self):
        self.got, self.held = [], None


class Bench:
    """A module under test: its clock, its reset, and the parts around it, which act at every rising
    edge."""

    def __init__(self, dut):
        self.dut, self.parts, self.cycle = dut, [], 0

    def add(self, part):
        self.parts.append(part)
        return part

    async def start(self):
        Clock(self.dut.clk, 4, "ns").start()
        await self.reset()
        return self

    async def reset(self):
        self.dut.rst.value = 1
        for _ in range(3):
            await RisingEdge(self.dut.clk)
        for part in self.parts:
            part.clear()
        self.dut.rst.value = 0

    async def run(self, cycles):
        for _ in range(cycles):
            await RisingEdge(self.dut.clk)
            self.cycle += 1
            for part in self.parts:
                part.edge()

    async def until(self, condition, limit=20000):
        """Runs until the condition holds; the number of cycles that took."""
        start = self.cycle
        while not condition():
            assert self.cycle - start < limit, f"nothing for {limit} cycles"
            await self.run(1)
        return self.cycle - start


STALLS = [(0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.4, 0.6), (0.9, 0.1), (0.1, 0.9)]
