"""Programs whose classes are in no file, as a notebook's are: cells are in `linecache` only."""

import linecache
import pathlib
import shutil
import subprocess
import sys

import pytest
from nicforge.flow import FlowError

CELL = '''from nicforge.flow import *


class Both(Element):
    inp = In(pkt=packet)
    body = """
        nf_reset(pkt);
        nf_send(pkt, PORT);
    """


class Onward(Element):
    inp, out = In(pkt=packet), Out(packet)
    body = "out(pkt);"


network = FromNet()
network >> Onward() >> Both(PORT=1)
program = Program("cell", network)
'''


class Notebook:
    """Runs cells in one namespace, as IPython does."""

    def __init__(self):
        self.names, self.count = {"__name__": "__main__"}, 0

    def run(self, cell: str) -> str:
        self.count += 1
        file = f"<ipython-input-{self.count}>"
        linecache.cache[file] = (len(cell), None, cell.splitlines(keepends=True), file)
        exec(compile(cell, file, "exec"), self.names)
        return file

    def refused(self, cell: str) -> str:
        self.run(cell)
        with pytest.raises(FlowError) as found:
            self.names["program"].check()
        return str(found.value)


@pytest.fixture
def notebook(monkeypatch):
    # Whose `__main__` runs the tests has a file, and classes of its own.
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    return Notebook()


def test_a_cell_may_be_run_again_with_another_element_of_the_name(notebook):
    for port in (1, 0):
        notebook.run(CELL.replace("PORT=1", f"PORT={port}"))
        assert notebook.names["program"].check().startswith("cell: 1 handler")
    assert repr(notebook.names["program"]) == "Program('cell': 3 elements, 0 queues)"


def test_mistakes_have_the_line_of_their_cell(notebook):
    notebook.run(CELL)
    wrong = notebook.refused(CELL.replace("nf_send(pkt, PORT)", "nf_send(pkt, nowhere)"))
    assert wrong.startswith(
        "<ipython-input-2>:8: element `both`: use of undeclared identifier 'nowhere'"
    )
    wrong = notebook.refused(CELL.replace('"out(pkt);"', '"out(pkt, 1);"'))
    assert wrong.startswith("<ipython-input-3>:14: element `onward`: ")


def test_notebooks_show_mistakes_as_one_message_and_programs_as_a_graph(notebook, monkeypatch):
    notebook.run(CELL)
    program = notebook.names["program"]
    with pytest.raises(FlowError) as found:
        notebook.run("FromNet() >> Both(PORT=1) >> Both(PORT=2)")
    (line,) = found.value._render_traceback_()
    assert line.startswith("FlowError: <ipython-input-2>:1: element `both` has not just one output")
    monkeypatch.setenv("PATH", "/nowhere")
    assert program._repr_svg_() is None
    assert "onward -&gt; both;" in program._repr_html_()


def test_a_cell_that_connects_again_is_told_so(notebook):
    notebook.run(CELL)
    program = notebook.names["program"]
    with pytest.raises(
        FlowError,
        match="leads to 2 places; a packet goes one way; a notebook's cell that is run again",
    ):
        notebook.run('network >> Onward() >> Both(PORT=1)\nProgram("cell", network)')
    for use in (program.draw, program.check, program._repr_svg_):
        with pytest.raises(
            FlowError, match="`cell` were connected further after it was made; make it again"
        ):
            use()


def test_what_is_installed_says_what_it_misses(tmp_path):
    """The package as it is installed: a folder of its own, with no compiled module anywhere."""
    package = pathlib.Path(__file__).resolve().parents[1] / "nicforge"
    # A copy: what a link leads to is beside a `target` folder.
    shutil.copytree(package, tmp_path / "nicforge")
    text = CELL + "\ntry:\n    program.check()\nexcept FlowError as error:\n    print(error)\n"
    words = [
        sys.executable,
        "-I",
        "-c",
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{text}",
    ]
    done = subprocess.run(
        words, capture_output=True, text=True, cwd="/", env={"PATH": "/nowhere"}, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout
        == "nicforge's compiled module is not there: install a wheel (`make dist` makes "
        "one), or build it here with `make build`\n"
    )
