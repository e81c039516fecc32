"""Finds the package and the command in this repository, and makes captures."""

import os
import pathlib
import struct
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))


@pytest.fixture
def capture(tmp_path):
    """Writes Ethernet frames as a capture; gives its path."""

    def write(frames):
        path = tmp_path / "frames.pcap"
        out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)]
        for at, frame in enumerate(frames):
            out.append(struct.pack("<IIII", 0, at * 1000, len(frame), len(frame)) + frame)
        path.write_bytes(b"".join(out))
        return str(path)

    return write


@pytest.fixture
def needs_root():
    if os.geteuid() != 0:
        why = "this test loads BPF programs and makes network namespaces: run it as root"
        assert "CI" not in os.environ, why
        pytest.skip(why)
