#!/usr/bin/env bash
# The long runs, by hand or at night: random programs without end in sight, then fuzzing.
# SOAK_PROGRAMS sets how many programs (default 20000), SOAK_FUZZ_SECONDS how long each fuzz target
# runs (default 600).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh
export NICFORGE_RANDOM_PROGRAMS=${SOAK_PROGRAMS:-20000} NICFORGE_SOAK=1
as_root env "PATH=$PATH" cargo test --release -p nicforge-tests --test \
    simulated --test plans -- --nocapture
as_root env "PATH=$PATH" cargo test --release -p nicforge-tests --test random_programs -- \
    --nocapture

# All of the Python tests, with what `make test` leaves out.
as_root env "PATH=$PATH" cargo build -q -p nicforge-cli -p nicforge-python
as_root env "PATH=$PATH" NICFORGE="$PWD/target/debug/nicforge" "$NICFORGE_PYTHON/bin/pytest" -q \
    -m "soak or not soak" -p no:cacheprovider python/tests rtl/tests

# NFP instructions beside those of Linux's translator, from Debian's package linux-source-6.1:
# random programs, the examples and the objects of libxdp1.
objects=$(mktemp -d)
for source in examples/xdp/*.c; do
    clang-19 -O2 -g -target bpf -mcpu=v3 -I"/usr/include/$(uname -m)-linux-gnu" -c "$source" -o \
        "$objects/$(basename "$source").o"
done
if tests/nfp_translator/build.sh >/dev/null; then
    NICFORGE_NFP_PROGRAMS=14000 NICFORGE_NFP_SEED=${SOAK_SEED:-$RANDOM} \
        NICFORGE_NFP_OBJECTS="$(printf '%s ' "$objects"/*.o $(dpkg -L libxdp1 | grep '\.o$'))" \
        cargo test -q -p nicforge-isa --test nfp_translator -- --ignored --nocapture
else
    echo "the NFP translator of Linux left out: see above" >&2
fi
rm -r "$objects"

# Published figures of caches and queues beside ours.
cargo test -q -p nicforge-cli --test flow -- --ignored

# Examples with each other clang that is installed, under the name of the preferred one.
as_root env "PATH=$PATH" cargo build --release -q -p nicforge-cli -p nicforge-python
for version in 16 15 14; do
    if ! command -v "clang-$version" >/dev/null; then
        echo "clang $version left out: \`apt-get install clang-$version\`" >&2
        continue
    fi
    named=$(mktemp -d)
    ln -s "$(command -v "clang-$version")" "$named/clang-19"
    for example in conn_limiter dns_cache firewall flow_stats kv_cache l2_forward nat; do
        as_root env "PATH=$named:$PATH" target/release/nicforge verify "examples/$example" \
            --target xdp
    done
    rm -r "$named"
done

# Generated C programs as plain C and on the targets. It goes on where the last run ended: the state
# file has the next seed. A failing program is made small by a reducer of our own
# (tests/src/reduce.rs); `cvise` is not needed.
targets=xdp,host,agilio-cx,pspin,liquidio/4,panic/4,dpdk/25,u280/100
targets+=,plan:liquidio/20,plan:agilio-cx/20,plan:pspin/40,plan:panic/20,plan:dpdk/80
as_root env "PATH=$PATH" NICFORGE_RANDOM_STATE="${SOAK_STATE:-target/generated.state}" \
    NICFORGE_RANDOM_TARGETS="${SOAK_TARGETS:-$targets}" \
    cargo test --release -p nicforge-tests --test generated -- --nocapture

# Generated handlers for sPIN NICs: as code of this computer, on simulated cores, and behind the
# datapath in hardware.
NICFORGE_RANDOM_HANDLERS=$((NICFORGE_RANDOM_PROGRAMS / 40)) cargo test --release -p nicforge-cli \
    --test spin_generated -- --nocapture

# Programs and random ones as hardware.
cargo test --release -p nicforge-tests --test fpga_faults --test fpga_entries --test fpga_waits -- \
    --nocapture
NICFORGE_RANDOM_DESIGNS=$((NICFORGE_RANDOM_PROGRAMS / 100)) cargo test --release -p \
    nicforge-tests --test fpga -- --nocapture
NICFORGE_RANDOM_DESIGNS=$((NICFORGE_RANDOM_PROGRAMS / 100)) cargo test --release -p \
    nicforge-tests --test fpga_chains -- --nocapture

# A million packets through the sPIN datapath in hardware, each compared.
as_root env "PATH=$PATH" cargo test --release -p nicforge-run --test spin_datapath -- --ignored \
    --nocapture

# Random eBPF programs as objects: in the kernel, lifted, and compiled again in the kernel. It goes
# on where the last run ended.
as_root env "PATH=$PATH" NICFORGE_RANDOM_EBPF=$((NICFORGE_RANDOM_PROGRAMS / 2)) \
    NICFORGE_RANDOM_STATE="${SOAK_EBPF_STATE:-target/ebpf.state}" \
    cargo test --release -p nicforge-cli --test lift_generated -- --nocapture
NICFORGE_RANDOM_EBPF=$((NICFORGE_RANDOM_PROGRAMS / 20)) cargo test --release -p nicforge-tests \
    --test lifted -- --nocapture

# Random eBPF programs: mistakes in them and rewritings beside proofs; random packets in a row beside
# the bound.
NICFORGE_RANDOM_PAIRS=$NICFORGE_RANDOM_PROGRAMS NICFORGE_RANDOM_SEED=${SOAK_SEED:-$RANDOM} \
    cargo test --release -p nicforge-bound --test equal -- --nocapture
NICFORGE_RANDOM_ROWS=$NICFORGE_RANDOM_PROGRAMS NICFORGE_RANDOM_SEED=${SOAK_SEED:-$RANDOM} \
    cargo test --release -p nicforge-bound --test rows -- --nocapture

# Objects, instructions and listings with random damage, by a plain loop that needs no cargo-fuzz.
export NICFORGE_FUZZ_SECONDS=${SOAK_FUZZ_SECONDS:-600} NICFORGE_FUZZ_SEED=${SOAK_SEED:-$RANDOM}
cargo test --release -p nicforge-bound --test garbage -- --nocapture
# The RV32 core against qemu on a tenth of the programs, instruction by instruction, and damaged
# code and files.
NICFORGE_RV32_PROGRAMS=$((NICFORGE_RANDOM_PROGRAMS / 10)) cargo test --release -p nicforge-isa \
    --test rv32 -- --nocapture

if ! cargo fuzz --version >/dev/null 2>&1; then
    echo "fuzzing left out: cargo-fuzz is missing;" \
        "\`rustup toolchain install nightly && cargo install cargo-fuzz\`" >&2
    exit 0
fi
# What the tests replay is where fuzzing starts.
seeds=tests/corpus
fuzzed=(air pcap tables spec plan object ebpf nfp rv32 rv32_elf spin_match spin_image balance)
fuzzed+=(netlist)
mkdir -p "${fuzzed[@]/#/fuzz/corpus/}"
cp crates/ir/src/text/*.air crates/passes/tests/fixtures/*.air fuzz/corpus/air/
cp $seeds/pcap/* fuzz/corpus/pcap/
cp $seeds/tables/* fuzz/corpus/tables/
cp targets/*.toml fuzz/corpus/spec/
cp $seeds/plans/* fuzz/corpus/plan/
cp $seeds/netlist/* fuzz/corpus/netlist/
for profile in crates/balance/profiles/*.toml; do
    { printf '\1'; cat "$profile"; } >"fuzz/corpus/balance/$(basename "$profile")"
done
for target in "${fuzzed[@]}"; do
    cargo +nightly fuzz run "$target" -- -max_total_time="${SOAK_FUZZ_SECONDS:-600}" -max_len=65536
done
