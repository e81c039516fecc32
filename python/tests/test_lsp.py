"""`nicforge lsp` with the client of pygls, which checks every message against the protocol."""

import asyncio
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
import yaml
from lsprotocol import types
from pygls.lsp.client import BaseLanguageClient

COMMAND = os.environ.get("NICFORGE", "nicforge")
SOAK = "NICFORGE_SOAK" in os.environ

PROGRAM = """#include <nicforge.h>

NF_PORTS(1);
NF_TABLE(hash, seen, nf_be32, uint64_t, 64);

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    if (!nf_extract(pkt, &eth) || !nf_extract(pkt, &ip)) {
        nf_drop(pkt, "short ä"); return;
    }
    nf_add_value(&seen, ip.src, 1);
    nf_reset(pkt);
    nf_send(pkt, 0);
}
"""


class Editor(BaseLanguageClient):
    """An editor that keeps what it is told of each document."""

    def __init__(self):
        super().__init__("tests", "1")
        self.told = asyncio.Queue()

        @self.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def _(params):
            self.told.put_nowait(params)

    async def problems(self, path, version, enough=lambda problems: True):
        """What is shown of a version, once it is enough."""
        while True:
            told = await asyncio.wait_for(self.told.get(), 300)
            if (told.uri, told.version) == (path.as_uri(), version) and enough(told.diagnostics):
                return list(told.diagnostics)

    def open(self, path):
        document = types.TextDocumentItem(path.as_uri(), "c", 1, path.read_text())
        self.text_document_did_open(types.DidOpenTextDocumentParams(document))

    def change(self, path, version, text):
        document = types.VersionedTextDocumentIdentifier(version, path.as_uri())
        change = types.TextDocumentContentChangeWholeDocument(text)
        self.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))

    async def lenses(self, path):
        document = types.TextDocumentIdentifier(path.as_uri())
        found = await self.text_document_code_lens_async(types.CodeLensParams(document))
        return [(lens.range.start.line, lens.command.title) for lens in found]


def with_editor(work, *arguments):
    """Starts a server, does `work` with an editor, and ends both as the protocol says."""

    async def run():
        editor = Editor()
        await editor.start_io(COMMAND, "lsp", *arguments)
        started = await editor.initialize_async(
            types.InitializeParams(capabilities=types.ClientCapabilities())
        )
        assert started.capabilities.code_lens_provider
        editor.initialized(types.InitializedParams())
        await work(editor)
        await editor.shutdown_async(None)
        editor.exit(None)
        assert await asyncio.wait_for(editor._server.wait(), 300) == 0
        await editor.stop()

    asyncio.run(run())


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "prog ü.c"
    path.write_text(PROGRAM)
    return path


def test_problems_as_one_types(path):
    async def work(editor):
        editor.open(path)
        assert await editor.problems(path, 1) == []
        # Not on the disk: what is typed counts.
        editor.change(path, 2, PROGRAM.replace('"short ä"); return;', '"short ä"); retrun;'))
        (problem,) = await editor.problems(path, 2)
        line = PROGRAM.splitlines().index('        nf_drop(pkt, "short ä"); return;')
        assert problem.range.start == types.Position(line, 33)
        assert (problem.code, problem.severity) == ("NF0001", types.DiagnosticSeverity.Error)
        loop = "    for (uint32_t i = 0; i < nf_ntohl(ip.src); i++) { nf_reset(pkt); }\n    nf_send"
        editor.change(path, 3, PROGRAM.replace("    nf_send", loop))
        (problem,) = await editor.problems(path, 3)
        assert problem.code == "NF0025" and "help: " in problem.message
        document = types.TextDocumentIdentifier(path.as_uri())
        hover = await editor.text_document_hover_async(
            types.HoverParams(document, problem.range.start)
        )
        assert "NF0025" in hover.contents.value
        editor.change(path, 4, "int main(void) { return x; }\n")
        assert await editor.problems(path, 4) == [], "no program of Nicforge's"
        editor.change(path, 5, PROGRAM)
        assert await editor.problems(path, 5) == []

    with_editor(work)


def test_costs_of_what_is_saved(path):
    async def work(editor):
        editor.open(path)
        lenses = await editor.lenses(path)
        handler = PROGRAM.splitlines().index("void net_recv(nf_pkt pkt)")
        assert lenses[0][0] == handler and lenses[0][1].startswith("panic: worst packet rate: ")
        assert any(line == handler and title.startswith("xdp: ") for line, title in lenses)
        update = PROGRAM.splitlines().index("    nf_add_value(&seen, ip.src, 1);")
        shares = [title for line, title in lenses if line == update]
        assert shares and all(title.endswith("% of the slowest path") for title in shares)

        document = types.TextDocumentIdentifier(path.as_uri())
        everything = types.Range(types.Position(0, 0), types.Position(99, 0))
        hints = await editor.text_document_inlay_hint_async(
            types.InlayHintParams(document, everything)
        )
        shares = {hint.position.line: float(hint.label.removesuffix(" %")) for hint in hints}
        assert update in shares and 50 < sum(shares.values()) <= 101

        # A change counts when it is saved.
        dear = PROGRAM.replace("    nf_reset", "    nf_add_value(&seen, ip.dst, 1);\n    nf_reset")
        editor.change(path, 2, dear)
        assert await editor.lenses(path) == lenses
        path.write_text(dear)
        editor.text_document_did_save(types.DidSaveTextDocumentParams(document))
        assert await editor.lenses(path) != lenses

        # A target that lacks something says so at its place.
        sealed = dear.replace("    nf_reset", "    uint32_t sum = nf_crc32(pkt, 8);\n    nf_reset")
        path.write_text(sealed)
        editor.change(path, 3, sealed)
        editor.text_document_did_save(types.DidSaveTextDocumentParams(document))
        await editor.lenses(path)
        lacks = await editor.problems(
            path, 3, lambda found: any("lacks" in one.message for one in found)
        )
        assert any("agilio-xdp lacks" in one.message for one in lacks)

    with_editor(work, "--target", "panic", "--target", "agilio-xdp", "--target", "xdp")


def test_the_same_problems_as_check():
    """Every problem that `check` finds in programs made for that is shown, at its place."""
    folder = pathlib.Path(__file__).resolve().parents[2] / "crates/frontend/tests/diag"
    paths = sorted(folder.glob("*.c"))[:: 1 if SOAK else 9]

    async def work(editor):
        compared = 0
        for path in paths:
            command = [COMMAND, "check", "--json", path]
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            if not ran.stdout:
                continue
            wanted = [
                (one["code"], one["primary"]["line"] - 1, one["message"])
                for one in json.loads(ran.stdout)["diagnostics"]
                if one["primary"].get("file") == str(path)
            ]
            editor.open(path)
            shown = [
                (one.code, one.range.start.line, one.message.split("\n")[0])
                for one in await editor.problems(path, 1)
                if one.code
            ]
            assert shown == wanted, path
            compared += len(wanted)
        assert compared > (150 if SOAK else 15)

    with_editor(work)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"", "the editor is gone without a word"),
        (b"hello\r\n\r\n", "not of the language server protocol"),
        (b'Content-Length: 9\r\n\r\n{"a": 1, ]', "not of the language server protocol"),
        (b"Content-Length: 99\r\n\r\n{}", "not of the language server protocol"),
    ],
)
def test_editors_that_end_otherwise(said, why):
    ran = subprocess.run([COMMAND, "lsp"], input=said, capture_output=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert why in ran.stderr.decode() and ran.stderr.count(b"\n") == 1


def test_flags_for_clangd():
    """examples/.clangd is right: clang takes all programs with what it says for each."""
    examples = pathlib.Path(__file__).resolve().parents[2] / "examples"
    rules = list(yaml.safe_load_all((examples / ".clangd").read_text()))
    clang = next(filter(None, map(shutil.which, ("clang-19", "clang-16", "clang"))))
    # The flags of a folder, and its files: one process reads them all.
    groups = {}
    for path in sorted(examples.glob("*/*.c")):
        name = path.relative_to(examples).as_posix()

        def counts(rule, name=name):
            match, exclude = rule["If"].get("PathMatch", ".*"), rule["If"].get("PathExclude", "-")
            return re.fullmatch(match, name) and not re.fullmatch(exclude, name)

        found = [rule["CompileFlags"]["Add"] for rule in rules if counts(rule)]
        assert len(found) <= 1, f"two rules for {name}"
        if found:
            groups.setdefault((path.parent, tuple(found[0])), []).append(path.name)
    assert sum(map(len, groups.values())) > 60
    for (folder, flags), files in groups.items():
        # Programs in examples/xdp that are there to be refused are none of clang's business.
        command = [clang, "-fsyntax-only", "-w", *flags, *files]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
