"""Fails where more than 0.5 % of a language's lines have over 100 columns, and names the files;
and where a paragraph of a page has over 600 characters.

Not counted: tables of Markdown and commands with their output in it, whose lines cannot be broken;
inline tables of TOML, for the same reason; fixtures under crates/, which are what a tool printed.
"""

import collections
import pathlib
import re
import subprocess
import sys

COLUMNS, SHARE = 100, 0.005
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


over = False
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
