#!/usr/bin/env bash
# Everything CI runs. Each step says its name and its time; the first failing one ends the run.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

step() {
    local name=$1 start=$SECONDS
    shift
    echo "== $name"
    "$@" || { echo "== $name failed" >&2; exit 1; }
    echo "== $name: $((SECONDS - start)) s"
}

step "format" cargo fmt --check
step "format of C and Python" scripts/lint.sh
step "lint" cargo clippy -q --workspace --all-targets -- -D warnings
step "build" cargo build -q --workspace --all-targets
step "library of hardware" "$NICFORGE_PYTHON/bin/pytest" -q -n 2 -p no:cacheprovider rtl/tests
step "flow programs" as_root env NICFORGE="${CARGO_TARGET_DIR:-target}/debug/nicforge" "$NICFORGE_PYTHON/bin/pytest" -q -n 2 -p no:cacheprovider python/tests
step "tests" as_root env CARGO_TERM_COLOR=never cargo test -q --workspace --no-fail-fast
