#!/usr/bin/env bash
# Generated against hand-written programs: behaviour, instructions and time per packet. Arguments: [--json] [PROGRAM]...
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh
cargo build --release -q -p nicforge-bench
as_root "${CARGO_TARGET_DIR:-target}/release/nicforge-bench" "$@"
