#!/usr/bin/env bash
# Format and lint of everything that is not Rust: C by clang-format, Python by ruff. With --fix,
# formats instead of complaining.
set -euo pipefail
cd "$(dirname "$0")/.."
fix=${1:-}

scripts/python.sh
. scripts/env.sh
ruff=$NICFORGE_PYTHON/bin/ruff

# Fixtures under crates/ are what tests say they are.
mapfile -t sources < <(git ls-files '*.c' '*.h' | grep -v '^crates/.*/tests/')
if [ "$fix" = --fix ]; then
    clang-format-19 -i "${sources[@]}"
    "$ruff" format -q .
    "$ruff" check -q --fix .
else
    clang-format-19 --dry-run -Werror "${sources[@]}"
    "$ruff" format -q --check .
    "$ruff" check -q .
fi
python3 scripts/columns.py
