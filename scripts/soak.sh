#!/usr/bin/env bash
# The long runs, by hand or at night: random programs without end in sight. SOAK_PROGRAMS sets how many (default 20000).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh
export NICFORGE_RANDOM_PROGRAMS=${SOAK_PROGRAMS:-20000}
as_root env "PATH=$PATH" cargo test --release -p nicforge-tests --test random_programs -- --nocapture
