"""Makes a package for Debian and what is derived from it, of the wheel that `make dist` made: the
command, Python packages, man pages, completions, examples, and a unit for systemd.

    deb.py WHEEL FOLDER     writes FOLDER/nicforge_VERSION_ARCHITECTURE.deb

dpkg-shlibdeps finds the packages that the command is linked to; clang, which compiles programs, is
recommended.
"""

import gzip
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
CONTROL = """\
Package: nicforge
Version: {version}
Architecture: {architecture}
Maintainer: Nicforge developers <nicforge@localhost>
Section: net
Priority: optional
Installed-Size: {kilobytes}
Depends: {depends}, python3 (>= 3.11)
Recommends: clang-19 | clang-16 | clang-15 | clang-14, libc6-dev, linux-libc-dev
Description: packet programs for SmartNICs
 Compiles a packet program, written once in C or brought as an XDP object, for Linux XDP, DPDK,
 SmartNICs, RISC-V many-cores and FPGAs; says at which rate it runs in the worst case; and runs it.
"""


def output(*words, **more):
    """What a command prints."""
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def depends(binary):
    """Packages that a program is linked to, with their versions."""
    with tempfile.TemporaryDirectory() as place:
        # It reads the source package's description, of which it needs nothing.
        (pathlib.Path(place) / "debian").mkdir()
        (pathlib.Path(place) / "debian/control").write_text("Source: nicforge\n")
        line = output("dpkg-shlibdeps", "-O", f"-e{binary}", cwd=place)
    return line.strip().removeprefix("shlibs:Depends=")


def fill(tree, wheel):
    """Puts the files of a wheel where Debian has them, below a folder, and others beside them."""
    with tempfile.TemporaryDirectory() as place:
        with zipfile.ZipFile(wheel) as file:
            file.extractall(place)
        (data,) = pathlib.Path(place).glob("nicforge-*.data")
        shutil.move(data / "data/share", tree / "usr/share")
        shutil.move(data / "scripts", tree / "usr/bin")
        packages = tree / "usr/lib/python3/dist-packages"
        packages.mkdir(parents=True)
        shutil.move(pathlib.Path(place) / "nicforge", packages)
    (tree / "usr/bin/nicforge").chmod(0o755)
    zsh = tree / "usr/share/zsh"
    (zsh / "site-functions").rename(zsh / "vendor-completions")
    for page in (tree / "usr/share/man/man1").iterdir():
        page.with_name(page.name + ".gz").write_bytes(gzip.compress(page.read_bytes(), mtime=0))
        page.unlink()
    unit = tree / "usr/lib/systemd/system/nicforge@.service"
    unit.parent.mkdir(parents=True)
    shutil.copy(ROOT / "scripts/nicforge@.service", unit)
    (tree / "etc/nicforge").mkdir(parents=True)
    licences = tree / "usr/share/doc/nicforge/copyright"
    licences.parent.mkdir(parents=True)
    names = ("LICENSE", "LICENSE-MIT", "LICENSE-APACHE")
    licences.write_text("\n".join((ROOT / name).read_text() for name in names))


def package(wheel, folder):
    """The package, in a folder."""
    version = wheel.name.split("-")[1]
    architecture = output("dpkg", "--print-architecture").strip()
    path = folder / f"nicforge_{version}_{architecture}.deb"
    with tempfile.TemporaryDirectory() as place:
        tree = pathlib.Path(place)
        tree.chmod(0o755)
        fill(tree, wheel)
        size = sum(file.stat().st_size for file in tree.rglob("*") if file.is_file())
        (tree / "DEBIAN").mkdir()
        control = CONTROL.format(
            version=version,
            architecture=architecture,
            kilobytes=size // 1024,
            depends=depends(tree / "usr/bin/nicforge"),
        )
        (tree / "DEBIAN/control").write_text(control)
        output("dpkg-deb", "-Zzstd", "--root-owner-group", "--build", tree, path)
    return path


if __name__ == "__main__":
    print(package(*map(pathlib.Path, sys.argv[1:])))
