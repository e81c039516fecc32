"""The wheel of `make dist`, from this build's binary: installed into an empty environment, it works
where the repository cannot be seen. So does what the Debian package of it holds. 52 s beside other
builds."""

import os
import pathlib
import shutil
import subprocess
import sys

from nicforge.flow import tool

ROOT = pathlib.Path(__file__).resolve().parents[2]

PACKAGES = """
import sys
from nicforge.flow import tool
assert tool.find() == sys.argv[1], tool.find()
import nicforge.floem
plan = nicforge.load("examples/firewall").plan("bluefield2")
assert plan.rate_pps > 0 and plan.stages, plan
print("packages")
"""


def run(*words, **more):
    ran = subprocess.run(words, capture_output=True, text=True, **more)
    assert ran.returncode == 0, (words, ran.stdout, ran.stderr)
    return ran.stdout


def install(place):
    """A virtual environment with the wheel and nothing else."""
    pip = (sys.executable, "-m", "pip", "-q", "--disable-pip-version-check")
    binary = os.environ | {"NICFORGE_BINARY": tool.find()}
    run(*pip, "wheel", "--no-deps", "-w", place / "dist", ROOT, env=binary)
    (wheel,) = (place / "dist").glob("nicforge-*.whl")
    assert "-cp311-abi3-linux_" in wheel.name
    run(sys.executable, "-m", "venv", place / "venv")
    run(place / "venv/bin/pip", "-q", "install", "--no-index", "--no-deps", wheel)


def inside(place, *words):
    """Runs a command of the environment; as root with an empty folder over the repository."""
    home = place / "home"
    home.mkdir(exist_ok=True)
    around = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(home)}
    if os.geteuid() == 0:
        hide = 'mount -t tmpfs none "$1" && shift && exec "$@"'
        words = ("unshare", "--mount", "sh", "-c", hide, "sh", str(ROOT), *words)
    return run(*map(str, words), cwd=home, env=around)


def unpack(place):
    """The Debian package of the wheel, unpacked below a folder."""
    run(sys.executable, ROOT / "scripts/deb.py", *(place / "dist").glob("*.whl"), place / "dist")
    (package,) = (place / "dist").glob("nicforge_*.deb")
    fields = run("dpkg-deb", "--field", package)
    assert "Depends: libc6 (>= " in fields and "zlib1g" in fields
    run("dpkg-deb", "--extract", package, place / "root")
    return place / "root"


def test_the_wheel_needs_nothing_of_the_repository(tmp_path):
    install(tmp_path)
    python, nicforge = (tmp_path / "venv/bin" / name for name in ("python3", "nicforge"))
    said = inside(tmp_path, nicforge, "check", "examples/firewall", "--target", "dpdk")
    assert "firewall.c: 1 handler" in said and "dpdk  yes" in said
    said = inside(tmp_path, nicforge, "run", "examples/firewall", "--target", "interp")
    assert "firewall on interp" in said
    assert "pspin" in inside(tmp_path, nicforge, "targets")
    inside(tmp_path, nicforge, "build", "examples/firewall", "--target", "u280", "-o", "rtl")
    library = {path.name for path in (ROOT / "rtl").glob("*.sv")}
    assert library & {path.name for path in (tmp_path / "home/rtl").glob("*.sv")}
    for more in ("share/man/man1/nicforge-run.1", "share/bash-completion/completions/nicforge"):
        assert (tmp_path / "venv" / more).is_file()
    assert inside(tmp_path, python, "-c", PACKAGES, nicforge) == "packages\n"
    if shutil.which("dpkg-shlibdeps"):
        root = unpack(tmp_path)
        said = inside(tmp_path, root / "usr/bin/nicforge", "check", "examples/firewall")
        assert "firewall.c: 1 handler" in said
        unit = root / "usr/lib/systemd/system/nicforge@.service"
        assert "ExecStart=/usr/bin/nicforge run " in unit.read_text()
        assert (root / "usr/share/man/man1/nicforge-run.1.gz").is_file()
    else:
        print("Debian package left out: no dpkg-shlibdeps (apt-get install dpkg-dev)")
    # Loading programs takes root, as `make test` is.
    assert os.geteuid() == 0 or "CI" not in os.environ
    if os.geteuid() == 0:
        said = inside(tmp_path, nicforge, "run", "examples/firewall", "--target", "xdp")
        assert "matches the reference: 2370 of 2370 events" in said
