"""What self-tests of flow programs share: a network namespace without a name, with a veth pair in
it.

nf0 is the program's end and has no address, so whatever answers from there is the program; `client`
is ours. Everything ends with the processes in it.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

from nicforge.flow.tool import find

ADDRESS, OURS = "10.9.0.1", "10.9.0.2"
PATIENCE = 300.0
#: In front of a command: it ends with the test, however that ends.
ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL")


def again(script: pathlib.Path, tools: list[str], *arguments: str) -> int:
    """Runs a script in a namespace of its own; 3 if something is missing here."""
    missing = [
        tool
        for tool in (*tools, "ip", "ethtool", "unshare", "setpriv")
        if shutil.which(tool) is None
    ]
    if os.geteuid() != 0 or missing:
        why = f"`{missing[0]}` is not installed" if missing else "it makes network namespaces"
        print(
            f"error: the self-test cannot run here: {why}; run it as root after scripts/bootstrap.sh",
            file=sys.stderr,
        )
        return 3
    return subprocess.call(["unshare", "--net", sys.executable, str(script), *arguments])


def network() -> None:
    """Makes nf0 for the program and client for us."""
    _call("ip", "link", "set", "lo", "up")
    _call("ip", "link", "add", "nf0", "numrxqueues", "1", "type", "veth", "peer", "name", "client")
    _call("ethtool", "-K", "client", "tx", "off")
    for end in ("nf0", "client"):
        _call("ip", "link", "set", end, "addrgenmode", "none")
        _call("ip", "link", "set", end, "up")
    _call("ip", "address", "add", f"{OURS}/24", "dev", "client")
    _call(
        "ip",
        "neighbour",
        "add",
        ADDRESS,
        "lladdr",
        link("nf0")["address"],
        "dev",
        "client",
        "nud",
        "permanent",
    )


def listen(place: pathlib.Path) -> subprocess.Popen:
    """A program on our end: veth takes what its peer's program sends back at once only if it has
    one too."""
    source = place / "listen.c"
    source.write_text(
        "#include <nicforge.h>\nNF_PORTS(1);\nvoid net_recv(nf_pkt pkt) { nf_pass(pkt); }\n"
    )
    words = [find(), "run", str(source), "--target", "xdp", "--dev", "client"]
    process = subprocess.Popen(
        [*ENDS_WITH_US, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until_attached("client")
    return process


def link(name: str) -> dict:
    """What `ip` says about an interface."""
    told = subprocess.run(
        ["ip", "-json", "link", "show", name], check=True, capture_output=True, text=True
    )
    return json.loads(told.stdout)[0]


def until(what: str, done) -> None:
    """Waits; ends the test if it takes too long."""
    started = time.monotonic()
    while not done():
        if time.monotonic() - started > PATIENCE:
            sys.exit(f"error: waited in vain: {what}")
        time.sleep(0.02)


def until_attached(name: str) -> None:
    """Waits until an interface has a program."""
    until(f"a program is attached to `{name}`", lambda: "xdp" in link(name))


def _call(*words: str) -> None:
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
