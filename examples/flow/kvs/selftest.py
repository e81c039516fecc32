"""Serves the store on a veth pair in a namespace of its own, beside a real memcached, and compares answers byte by byte.

The namespace has no name and ends with the processes in it. The client's end has an address, the store's has none:
whatever answers from there is the program. memcached runs without CAS numbers (`-C`), which the store does not have.
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from kvs import program
from load import PORT, binary_request, key_of, mixed, value_of
from nicforge.flow.tool import find

HERE = pathlib.Path(__file__).resolve().parent
ADDRESS, REQUESTS, KEYS = "10.9.0.1", 3000, 150
PATIENCE = 30.0
#: In front of a command: it ends with the test, however that ends.
ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL")


def run(variant: str) -> int:
    """Exit status: 0 if all answers are memcached's, 1 if not, 3 if something is missing here."""
    missing = [tool for tool in ("memcached", "ip", "ethtool", "unshare", "setpriv") if shutil.which(tool) is None]
    if os.geteuid() != 0 or missing:
        why = f"`{missing[0]}` is not installed" if missing else "it makes network namespaces"
        print(f"error: the self-test cannot run here: {why}; run it as root after scripts/bootstrap.sh", file=sys.stderr)
        return 3
    words = ["unshare", "--net", sys.executable, str(HERE / "selftest.py"), variant]
    return subprocess.call(words)


def call(*words: str) -> None:
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def network() -> None:
    """nf0 for the program, client for us."""
    call("ip", "link", "set", "lo", "up")
    call("ip", "link", "add", "nf0", "numrxqueues", "1", "type", "veth", "peer", "name", "client")
    call("ethtool", "-K", "client", "tx", "off")
    for end in ("nf0", "client"):
        call("ip", "link", "set", end, "addrgenmode", "none")
        call("ip", "link", "set", end, "up")
    call("ip", "address", "add", "10.9.0.2/24", "dev", "client")
    mac = link("nf0")["address"]
    call("ip", "neighbour", "add", ADDRESS, "lladdr", mac, "dev", "client", "nud", "permanent")


def link(name: str) -> dict:
    """What `ip` says about an interface."""
    told = subprocess.run(["ip", "-json", "link", "show", name], check=True, capture_output=True, text=True)
    return json.loads(told.stdout)[0]


def ask(address: str, datagram: bytes, seconds: float) -> bytes | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((address, PORT))
        sock.settimeout(seconds)
        sock.send(datagram)
        try:
            return sock.recv(4096)
        except (TimeoutError, ConnectionRefusedError):
            return None


def answer(sock: socket.socket) -> bytes | None:
    sock.settimeout(PATIENCE)
    try:
        return sock.recv(4096)
    except TimeoutError:
        return None


def until_attached(name: str) -> None:
    started = time.monotonic()
    while "xdp" not in link(name):
        if time.monotonic() - started > PATIENCE:
            sys.exit(f"error: no program was attached to `{name}`")
        time.sleep(0.05)


def until_answered(address: str, what: str, process: subprocess.Popen) -> None:
    started = time.monotonic()
    while ask(address, binary_request(1, True, b"ready"), 0.5) is None:
        if process.poll() is not None or time.monotonic() - started > PATIENCE:
            sys.exit(f"error: {what} does not answer")


def serve(variant: str) -> int:
    # What arrives is handled where it is sent: one CPU for all packets, the one that the store's NIC side begins with.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    network()
    # As root: a change of user would make it outlive a test that is killed.
    memcached = ["memcached", "-U", str(PORT), "-p", "0", "-l", "127.0.0.1", "-C", "-u", "root"]
    folder = tempfile.TemporaryDirectory(prefix="nicforge-kvs-")
    source = pathlib.Path(folder.name) / "kvs.c"
    source.write_text(program(variant).source().text)
    # veth takes what its peer's program sends back at once only if it has a program too.
    listen = pathlib.Path(folder.name) / "listen.c"
    listen.write_text("#include <nicforge.h>\nNF_PORTS(1);\nvoid net_recv(nf_pkt pkt) { nf_pass(pkt); }\n")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    processes = [
        subprocess.Popen([*ENDS_WITH_US, *words], **options)
        for words, options in (
            (memcached, quiet),
            (
                [find(), "run", str(source), "--target", "xdp", "--dev", "nf0", "--json"],
                {"stdout": subprocess.PIPE, "text": True, "preexec_fn": all_cpus},
            ),
            ([find(), "run", str(listen), "--target", "xdp", "--dev", "client"], quiet),
        )
    ]
    try:
        until_attached("client")
        until_attached("nf0")
        until_answered("127.0.0.1", "memcached", processes[0])
        until_answered(ADDRESS, f"the store ({variant})", processes[1])
        wrong = compare()
        wrong += read_your_writes()
        processes[1].send_signal(signal.SIGINT)
        report = json.loads(processes[1].communicate(timeout=PATIENCE)[0])
    finally:
        for process in processes:
            process.kill()
            process.wait()
        folder.cleanup()
    for line in wrong[:5]:
        print(line)
    sizes = ", ".join(f"{table['entries']} in {table['table']}" for table in report["tables"])
    said = "answers like memcached" if not wrong else f"{len(wrong)} answers are not memcached's"
    print(f"{variant}: {REQUESTS} requests of both protocols, {said}; {sizes}")
    return 1 if wrong or processes[1].returncode != 0 else 0


def all_cpus() -> None:
    os.sched_setaffinity(0, range(os.cpu_count() or 1))


def compare() -> list[str]:
    """One request after the other to both."""
    wrong = []
    for number, datagram in enumerate(mixed(7, REQUESTS, KEYS)):
        want, got = (ask(address, datagram, PATIENCE) for address in ("127.0.0.1", ADDRESS))
        if want != got:
            wrong.append(f"request {number} {datagram[8:60]!r}: memcached says {want!r}, the store {got!r}")
        if got is None:
            break
    return wrong


def read_your_writes() -> list[str]:
    """SETs and GETs of few keys at once, from several sockets: what was stored is what is read, or something newer."""
    wrong, acknowledged = [], {}
    socks = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(4)]
    for sock in socks:
        sock.connect((ADDRESS, PORT))
    for turn in range(1, 500):
        key = turn % 7
        # A writer, and three readers that may meet the fill, the update or the cache.
        socks[0].send(binary_request(turn, False, key_of(key), value_of(key, turn)))
        for reader in socks[1:]:
            reader.send(binary_request(turn, True, key_of(key)))
        answers = [answer(sock) for sock in socks]
        if None in answers:
            return [*wrong, f"turn {turn}: no answer"]
        for got in answers[1:]:
            version = int(got[36:].split(b":")[1]) if len(got) == 100 else 0
            if version < acknowledged.get(key, 0):
                wrong.append(f"turn {turn}: key {key} is {version}, but {acknowledged[key]} was acknowledged")
        acknowledged[key] = turn
    for sock in socks:
        sock.close()
    return wrong


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1]))
