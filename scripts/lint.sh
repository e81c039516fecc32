#!/usr/bin/env bash
# Format and lint of everything that is not Rust: C by clang-format, Python by ruff (in a virtual
# environment of its own). With --fix, formats instead of complaining.
set -euo pipefail
cd "$(dirname "$0")/.."
fix=${1:-}

venv=target/venv
if [ ! -x "$venv/bin/ruff" ]; then
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q --disable-pip-version-check ruff==0.17.5
fi

# Fixtures under crates/ are what tests say they are.
mapfile -t sources < <(git ls-files '*.c' '*.h' | grep -v '^crates/.*/tests/')
if [ "$fix" = --fix ]; then
    clang-format-19 -i "${sources[@]}"
    "$venv/bin/ruff" format -q .
    "$venv/bin/ruff" check -q --fix .
else
    clang-format-19 --dry-run -Werror "${sources[@]}"
    "$venv/bin/ruff" format -q --check .
    "$venv/bin/ruff" check -q .
fi
python3 scripts/columns.py
