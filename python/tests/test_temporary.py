"""Folders of programs are made where `nicforge` sweeps, and go."""

import os
import pathlib
import subprocess
import tempfile

import pytest
from nicforge.flow import FlowError
from nicforge.flow.temporary import Folder
from nicforge.flow.tool import find


@pytest.fixture
def temporary(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path / f"nicforge-{os.geteuid()}"


def test_a_folder_is_locked_and_goes_with_its_place(temporary):
    folder = Folder("flow")
    assert folder.path.parent == temporary and folder.path.is_dir()
    other = temporary / "flow-left"
    other.mkdir()
    program = pathlib.Path(__file__).parents[2] / "examples" / "l2_forward"
    subprocess.run([find(), "check", str(program)], check=True, capture_output=True)
    assert folder.path.is_dir() and not other.exists()
    folder.remove()
    assert not temporary.exists()


def test_a_link_in_place_of_it_is_refused(temporary, tmp_path):
    temporary.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(FlowError, match="set TMPDIR"):
        Folder("flow")
