#!/usr/bin/env bash
# Fetches Debian's C library for bare RISC-V (picolibc) and unpacks the headers and two variants, 14
# MB of the package's gigabyte: images of sPIN handlers link the one of 32 bits,
# examples/targets/rv64-soc that of
# 64. Done once; $NICFORGE_PICOLIBC says where (env.sh has the default). Where the package is
#     installed, that
# one is used.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

root=$NICFORGE_PICOLIBC
[ -e "$root/complete" ] && [ -d "$root/lib/rv64imac" ] && exit 0
echo "bootstrap: fetching picolibc for RISC-V into $root" >&2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
(cd "$work" && apt-get -q -o APT::Sandbox::User= download picolibc-riscv64-unknown-elf >/dev/null)
mkdir -p "$root"
base=./usr/lib/picolibc/riscv64-unknown-elf
dpkg-deb --fsys-tarfile "$work"/*.deb |
    tar -x -C "$root" --strip-components=5 "$base/include" "$base/lib/rv32imac/ilp32" \
        "$base/lib/rv64imac/lp64"
touch "$root/complete"
