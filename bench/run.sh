#!/usr/bin/env bash
# Generated against hand-written programs: behaviour, instructions and time per packet; then the UDP
# echo on DPDK, the queue between NIC and host, and the bars of the FPGA target (fpga.py).
# Arguments: [--json] [PROGRAM]... With programs named only those of the first part run, and with
# --json it and the last.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh
target=${CARGO_TARGET_DIR:-target}
cargo build --release -q -p nicforge-bench -p nicforge-cli -p nicforge-python
as_root "$target/release/nicforge-bench" "$@"
if [ "$*" = "" ]; then
    as_root "$target/release/dpdk" echo
    "$target/release/link"
fi
if [ "${*#--json}" = "" ]; then
    bench/fpga.py --nicforge "$target/release/nicforge" "$@"
fi
