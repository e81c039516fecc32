"""The phone book's server, the program in front of it and a client, in a network namespace without
a name.

What the network is told is what the server's own socket says; the server is killed and started
again under way, and so is the run.
"""

import json
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from phonebook import PORT, program

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import namespace  # noqa: E402
from namespace import ADDRESS, ENDS_WITH_US, PATIENCE, find  # noqa: E402

NAMES = 40


def run() -> int:
    """Exit status: 0 if all answers are right, 1 if not, 3 if something is missing here."""
    return namespace.again(HERE / "selftest.py", ["gcc"])


class Book:
    """The server, by its own socket."""

    def __init__(self, binary: pathlib.Path, place: pathlib.Path):
        self.path, self.numbers = str(place / "book.sock"), {}
        self.words = [*ENDS_WITH_US, str(binary), self.path, str(place / "run.sock")]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.words, stdout=subprocess.PIPE, text=True)
        namespace.until("the server listens", lambda: self.says("get nobody") == "unknown")
        for name, number in self.numbers.items():
            self.says(f"set {name} {number}")

    def says(self, line: str) -> str | None:
        with socket.socket(socket.AF_UNIX) as sock:
            try:
                sock.connect(self.path)
            except OSError:
                return None
            sock.sendall(line.encode())
            return sock.recv(64).decode().strip()

    def set(self, name: str, number: int) -> None:
        self.numbers[name] = number
        assert self.says(f"set {name} {number}") == "ok"

    def attached(self) -> None:
        line = self.process.stdout.readline()
        assert line == "attached\n", f"the server says {line!r}"


def ask(sock: socket.socket, number: int, name: str, patience: float = PATIENCE) -> int | None:
    """What the network is told: the number, or None if the name is unknown. Asks again until there
    is an answer."""
    started = time.monotonic()
    while time.monotonic() - started < patience:
        sock.send(struct.pack(">I16s", number, name.encode()))
        sock.settimeout(0.5)
        try:
            while True:
                answer = sock.recv(100)
                which, known, told = struct.unpack(">IIQ", answer)
                if which == number:
                    return told if known else None
        except (TimeoutError, ConnectionRefusedError):
            continue
    sys.exit(f"error: nobody answered question {number} for `{name}`")


def start_run(source: pathlib.Path, place: pathlib.Path) -> subprocess.Popen:
    words = [
        find(),
        "run",
        str(source),
        "--target",
        "xdp",
        "--dev",
        "nf0",
        "--json",
        "--host-socket",
        str(place / "run.sock"),
    ]
    process = subprocess.Popen([*ENDS_WITH_US, *words], stdout=subprocess.PIPE, text=True)
    namespace.until_attached("nf0")
    return process


def serve() -> int:
    namespace.network()
    folder = tempfile.TemporaryDirectory(prefix="nicforge-phonebook-")
    place = pathlib.Path(folder.name)
    source = place / "phonebook.c"
    source.write_text(program().source().text)
    binary = place / "server"
    subprocess.run(
        [find(), "build", str(source), "--emit", "host", "-o", str(place)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(
        ["gcc", *flags, "-I", str(place), str(HERE / "server.c"), "-o", str(binary)], check=True
    )
    listening = namespace.listen(place)
    book = Book(binary, place)
    live = start_run(source, place)
    wrong, asked = [], 0
    try:
        book.attached()
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.connect((ADDRESS, PORT))
        for turn in range(4):
            for at in range(NAMES):
                name = f"name{at:03}"
                if turn > 0:
                    book.set(name, turn * 1_000_000_007 + at)
                told, right = ask(sock, asked, name), book.says(f"get {name}")
                asked += 1
                if (str(told) if told is not None else "unknown") != right:
                    wrong.append(
                        f"question {asked}: the network says {told} of {name}, the server {right}"
                    )
            if turn == 1:
                book.process.kill()
                book.process.wait()
                book.start()
                book.attached()
            if turn == 2:
                live.send_signal(signal.SIGKILL)
                live.wait()
                namespace.until(
                    "the killed run's program is gone", lambda: "xdp" not in namespace.link("nf0")
                )
                live = start_run(source, place)
                book.attached()
        # Words in memory of both: what the server writes the NIC side obeys, and what that writes
        # the server reads.
        before = int(book.says("asked"))
        assert before >= NAMES and book.says("close") == "ok"
        sock.send(struct.pack(">I16s", asked + 1, b"name000"))
        namespace.until("the question is counted", lambda: int(book.says("asked")) == before + 1)
        assert book.says("open") == "ok"
        sock.send(b"no question")
        ask(sock, asked, "name000")
        live.send_signal(signal.SIGINT)
        report = json.loads(live.communicate(timeout=PATIENCE)[0])
    finally:
        for process in (live, book.process, listening):
            process.kill()
            process.wait()
        folder.cleanup()
    for line in wrong[:5]:
        print(line)
    attached, bad = report["attached"], report["drops"].get("not a question", 0)
    shut = report["drops"].get("the book is closed", 0)
    said = (
        "as the server's own socket" if not wrong else f"{len(wrong)} answers are not the server's"
    )
    print(
        f"{asked} questions answered {said}; server and run killed once each; "
        f"last run: {attached['given']} questions given, {attached['taken']} answers taken, "
        f"{bad} malformed and {shut} while the book was closed dropped on the NIC side"
    )
    return 1 if wrong or bad != 1 or shut != 1 or attached["taken"] < NAMES + 1 else 0


if __name__ == "__main__":
    sys.exit(serve())
