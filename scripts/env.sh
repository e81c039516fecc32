# Sourced by the Makefile and the other scripts: where tools are, and how to become root.
PATH="$HOME/.cargo/bin:/usr/sbin:/sbin:$PATH"
export PATH
# Debian's DPDK for arm64, see arm64-dpdk.sh. Named here so that it is the same folder for root.
NICFORGE_ARM64=${NICFORGE_ARM64:-${XDG_CACHE_HOME:-$HOME/.cache}/nicforge/arm64}
export NICFORGE_ARM64
# The C library of RISC-V images, see picolibc.sh.
NICFORGE_PICOLIBC=${NICFORGE_PICOLIBC:-${XDG_CACHE_HOME:-$HOME/.cache}/nicforge/picolibc}
export NICFORGE_PICOLIBC
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo --preserve-env=PATH,NICFORGE_BLESS,NICFORGE_ARM64,NICFORGE_PICOLIBC,CI "$@"; fi
}
