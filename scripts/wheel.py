"""Hatchling's hook: puts the `nicforge` command, the compiled Python module, examples, man pages and
completions into the wheel.

The command is the binary that NICFORGE_BINARY names (`make dist` builds one), and the module lies
beside it; both carry headers, runtime sources, modules of hardware and targets inside. Without that
variable the wheel has the Python packages alone, as `pip install .` in a clone makes it.
"""

import os
import pathlib
import platform
import shutil
import subprocess
import tempfile

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SHELLS = {
    "bash": "share/bash-completion/completions/nicforge",
    "fish": "share/fish/vendor_completions.d/nicforge.fish",
    "zsh": "share/zsh/site-functions/_nicforge",
}


def examples(root):
    """Files of examples/: those that Git has, else all."""
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", "examples"], capture_output=True, text=True
    )
    names = [name for name in listed.stdout.split("\0") if name]
    if not names:
        found = (root / "examples").rglob("*")
        names = [str(path.relative_to(root)) for path in found if path.is_file()]
    return [name for name in names if (root / name).is_file()]


class CommandHook(BuildHookInterface):
    """Named by pyproject.toml."""

    PLUGIN_NAME = "custom"

    def initialize(self, version, build_data):
        binary = os.environ.get("NICFORGE_BINARY")
        if not binary or version == "editable":
            return
        binary = pathlib.Path(binary).resolve()
        root = pathlib.Path(self.root)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="nicforge-wheel-"))
        command, module = self.folder / "nicforge", self.folder / "_native.abi3.so"
        shutil.copy(binary, command)
        shutil.copy(binary.with_name("libnicforge_python.so"), module)
        if shutil.which("strip"):
            subprocess.run(["strip", command, module], check=True)
        data = {str(root / name): f"share/nicforge/{name}" for name in examples(root)}
        for shell, place in SHELLS.items():
            path = self.folder / f"completions.{shell}"
            with path.open("wb") as file:
                subprocess.run([command, "completions", shell], stdout=file, check=True)
            data[str(path)] = place
        pages = self.folder / "man"
        subprocess.run([command, "man", pages], stdout=subprocess.DEVNULL, check=True)
        data[str(pages)] = "share/man/man1"
        build_data["shared_scripts"][str(command)] = "nicforge"
        build_data["shared_data"].update(data)
        build_data["force_include"][str(module)] = "nicforge/_native.abi3.so"
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-linux_{platform.machine()}"

    def finalize(self, version, build_data, artifact_path):
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)
