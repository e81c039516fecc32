"""Both kernels in a network namespace without a name, against the `openssl` command."""

import json
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile

from aes import BLOCKS, PORT, program

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import namespace  # noqa: E402
from namespace import ADDRESS, ENDS_WITH_US, PATIENCE, find  # noqa: E402

KEY, START, REQUESTS = b"sixteen byte key", b"an initial block", 120


def run() -> int:
    """Exit status: 0 if all answers are right, 1 if not, 3 if something is missing here."""
    return namespace.again(HERE / "selftest.py", ["gcc", "openssl"])


def encrypted(text: bytes) -> bytes:
    words = ["openssl", "enc", "-aes-128-cbc", "-nopad", "-K", KEY.hex(), "-iv", START.hex()]
    return subprocess.run(words, input=text, capture_output=True, check=True).stdout


def ask(sock: socket.socket, text: bytes) -> bytes | None:
    sock.settimeout(PATIENCE)
    sock.send(text)
    try:
        return sock.recv(2048)
    except (TimeoutError, ConnectionRefusedError):
        return None


def serve(place: pathlib.Path, binary: pathlib.Path, kernel: str) -> int:
    """Runs one kernel; how many answers were wrong."""
    path = f"{place}/{kernel}.sock"
    words = [
        find(),
        "run",
        str(place / "aes.c"),
        "--target",
        "xdp",
        "--dev",
        "nf0",
        "--json",
        "--host-socket",
        path,
    ]
    live = subprocess.Popen(
        [*ENDS_WITH_US, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    worker, numbers, wrong = None, random.Random(7), 0
    try:
        namespace.until_attached("nf0")
        worker = subprocess.Popen(
            [*ENDS_WITH_US, str(binary), kernel, path], stdout=subprocess.PIPE, text=True
        )
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.connect((ADDRESS, PORT))
        for bad in (b"", b"x" * 17, b"x" * (16 * BLOCKS + 16)):
            sock.send(bad)
        for _ in range(REQUESTS):
            text = numbers.randbytes(16 * numbers.randint(1, BLOCKS))
            wrong += ask(sock, text) != encrypted(text)
        live.send_signal(signal.SIGINT)
        report = json.loads(live.communicate(timeout=PATIENCE)[0])
        said = worker.communicate(timeout=PATIENCE)[0].strip()
    finally:
        for process in (live, *([worker] if worker else [])):
            process.kill()
            process.wait()
    bad = report["drops"].get("no whole blocks", 0)
    print(
        f"{REQUESTS - wrong} of {REQUESTS} requests as the openssl command; {bad} malformed dropped; {said}"
    )
    return wrong + abs(bad - 3)


def main() -> int:
    namespace.network()
    folder = tempfile.TemporaryDirectory(prefix="nicforge-aes-")
    place = pathlib.Path(folder.name)
    (place / "aes.c").write_text(program().source().text)
    header = [find(), "build", str(place / "aes.c"), "--emit", "host", "-o", str(place)]
    subprocess.run(header, check=True, stdout=subprocess.DEVNULL)
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-maes"]
    subprocess.run(
        [
            "gcc",
            *flags,
            "-I",
            folder.name,
            str(HERE / "aes.c"),
            "-o",
            str(place / "aes"),
            "-lcrypto",
        ],
        check=True,
    )
    listening = namespace.listen(place)
    try:
        wrong = sum(serve(place, place / "aes", kernel) for kernel in ("openssl", "aes-ni"))
        subprocess.run([str(place / "aes"), "bench"], check=True)
    finally:
        listening.kill()
        listening.wait()
        folder.cleanup()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
