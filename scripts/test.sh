#!/usr/bin/env bash
# Everything CI runs; with `check` what a person runs before each commit: format, lint, unit tests,
# text fixtures and one run in the kernel. Builds come first, and what only tests need is installed
# beside them; then tests run several at a time, and a table at the end says what each took and how
# many tests ran and were skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/bootstrap.sh --build
. scripts/env.sh

tier=${1:-all}
target=${CARGO_TARGET_DIR:-$PWD/target}
logs=$target/test-logs
python=$NICFORGE_PYTHON/bin/python
messages=$logs/$tier.json
# CI builds once, from a fresh clone: what incremental builds write down is for the next one, and
# nobody starts a debugger.
[ -z "${CI:-}" ] || export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=none
mkdir -p "$logs"
began=$SECONDS

step() {
    local name=$1 start=$SECONDS
    shift
    "$@" || { echo "== $name failed" >&2; exit 1; }
    echo "== $name: $((SECONDS - start)) s"
}

build() { cargo test -q --no-run --message-format=json-render-diagnostics "$@" >>"$messages"; }

: >"$messages"
prepare() { scripts/bootstrap.sh && scripts/lint.sh; }

step "format" cargo fmt --check
if [ "$tier" = check ]; then
    step "tools, format of C and Python" prepare
    step "lint" cargo clippy -q --workspace --all-targets -- -D warnings
    step "build" build --workspace --lib --bins
    step "build of fixtures" build -p nicforge-frontend -p nicforge-passes -p nicforge-codegen \
        --test fixtures
    step "build of the command" cargo build -q -p nicforge-cli -p nicforge-python
    jobs=("kernel=$PWD:$target/debug/nicforge run examples/nf_chain/nf_chain.c --target xdp")
else
    # A package that is half installed would be in the way of the next run.
    trap wait EXIT
    prepare >"$logs/prepare.log" 2>&1 &
    prepared=$!
    # All is compiled anyway, so clippy comes along.
    export RUSTC_WORKSPACE_WRAPPER=$PWD/scripts/clippy.sh
    export CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
    step "build and lint" build --workspace
    step "build of the command" cargo build -q -p nicforge-cli -p nicforge-bench \
        -p nicforge-python
    wait "$prepared" || { cat "$logs/prepare.log" >&2; exit 1; }
    echo "== tools, format of C and Python: $((SECONDS - began)) s, beside the build"
    . scripts/env.sh
    jobs=(
        "hardware-library=$PWD:$NICFORGE_PYTHON/bin/pytest -q -n 2 -p no:cacheprovider rtl/tests"
        "flow-programs=$PWD:$NICFORGE_PYTHON/bin/pytest -q -n 2 -p no:cacheprovider python/tests"
    )
fi
as_root env NICFORGE="$target/debug/nicforge" "$python" scripts/tests.py "$logs" "$messages" \
    "${jobs[@]}"
echo "== all of it: $((SECONDS - began)) s"
