"""Fails where more than 0.5 % of a language's lines have over 100 columns, and names the files;
where a paragraph of a page has over 600 characters; and where more than 7.5 % of the comments on
things in Rust do not begin with the thing but with `What`, `How`, `Where` and their like. They were
15.6 %, and are to become none.

Not counted: tables of Markdown and commands with their output in it, whose lines cannot be broken;
inline tables of TOML, for the same reason; fixtures under crates/, which are what a tool printed.
"""

import collections
import pathlib
import re
import subprocess
import sys

COLUMNS, SHARE = 100, 0.005
OPENINGS = re.compile(r"(What|How|Where|Whether|Who|It|The same)\b")
OPENING_SHARE = 0.075
PARAGRAPH = 600
# Pages whose text says what was measured, beside tables.
UNSPLIT = ("docs/validation/", "crates/", "CHANGELOG.md", "docs/xdp.md")
LANGUAGES = {"rs", "c", "h", "py", "sv", "sh", "toml", "md"}
LEFT_OUT = re.compile(r"^crates/.*/tests/.*\.(c|h|py|toml|sv)$")


def counted(path):
    """The lines of a file that are counted."""
    fenced = False
    for line in path.read_text().splitlines():
        if path.suffix == ".toml" and "{ " in line:
            continue
        if path.suffix == ".md":
            fenced ^= line.startswith("```")
            if fenced or line.startswith(("    ", "|")):
                continue
        yield line


lines, long = collections.Counter(), collections.defaultdict(collections.Counter)
for name in subprocess.check_output(["git", "ls-files"], text=True).splitlines():
    path = pathlib.Path(name)
    language = path.suffix[1:]
    if language not in LANGUAGES or LEFT_OUT.search(name) or not path.is_file():
        continue
    for line in counted(path):
        lines[language] += 1
        long[language][name] += len(line) > COLUMNS


def paragraphs(text):
    """Paragraphs and items of lists, each in one line."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for part in re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) )", text):
        if not part.lstrip("\n").startswith(("    ", "|", "#")):
            yield " ".join(part.split())


def openings(text):
    """The first lines of comments on things."""
    before = False
    for line in text.splitlines():
        found = re.match(r"\s*//[/!] ?(.*)", line)
        if found and not before:
            yield found[1]
        before = bool(found)


over = False
comments = vague = 0
for name in subprocess.check_output(["git", "ls-files", "crates/*/src/*.rs"], text=True).split():
    path = pathlib.Path(name)
    for line in openings(path.read_text()) if path.is_file() else ():
        comments += 1
        vague += bool(OPENINGS.match(line))
if vague > OPENING_SHARE * comments:
    over = True
    print(f"error: {vague} of {comments} comments do not name the thing first: say what it is")
for name in subprocess.check_output(["git", "ls-files", "*.md"], text=True).splitlines():
    path = pathlib.Path(name)
    if not path.is_file() or name.startswith(UNSPLIT):
        continue
    for paragraph in paragraphs(path.read_text()):
        if len(paragraph) > PARAGRAPH:
            over = True
            print(f"error: {name}: a paragraph of {len(paragraph)} characters: {paragraph[:60]}…")
for language, total in sorted(lines.items()):
    count = long[language].total()
    if count > SHARE * total:
        over = True
        worst = ", ".join(f"{name} ({n})" for name, n in long[language].most_common(5) if n)
        print(f"error: {count} of {total} lines of {language} have over {COLUMNS} columns: {worst}")
sys.exit(over)
