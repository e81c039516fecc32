#!/usr/bin/env bash
# Generated against hand-written programs: behaviour, instructions and time per packet; then the bars of the FPGA target (fpga.py).
# Arguments: [--json] [PROGRAM]... With programs named only those of the first part run.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh
target=${CARGO_TARGET_DIR:-target}
cargo build --release -q -p nicforge-bench -p nicforge-cli
as_root "$target/release/nicforge-bench" "$@"
if [ "${*#--json}" = "" ]; then
    bench/fpga.py --nicforge "$target/release/nicforge" "$@"
fi
