#!/usr/bin/env bash
# The long runs, by hand or at night: random programs without end in sight, then fuzzing. Several
# run at a time; what has passed for a commit is not run again for it, so a run that was ended goes
# on. A table at the end says what each step took.
#
#     soak.sh          all steps; SOAK_AGAIN=1 those too that have passed
#     soak.sh STEP...  these, by the names that the table has: tests-generated fuzzing
#
# SOAK_PROGRAMS sets how many programs (default 20000), SOAK_FUZZ_SECONDS how long each fuzz target
# runs (default 600), SOAK_SEED where random numbers begin.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh
programs=${SOAK_PROGRAMS:-20000}
seconds=${SOAK_FUZZ_SECONDS:-600}
export SOAK_SEED=${SOAK_SEED:-$RANDOM}

# Examples with each other clang that is installed, under the name of the preferred one.
examples() {
    for version in 16 15 14; do
        if ! command -v "clang-$version" >/dev/null; then
            echo "clang $version left out: \`apt-get install clang-$version\`" >&2
            continue
        fi
        named=$(mktemp -d)
        ln -s "$(command -v "clang-$version")" "$named/clang-19"
        for example in conn_limiter dns_cache firewall flow_stats kv_cache l2_forward nat; do
            PATH=$named:$PATH target/release/nicforge verify "examples/$example" --target xdp
        done
        rm -r "$named"
    done
}

# Objects of examples/xdp, into a folder.
compile_xdp() {
    for source in examples/xdp/*.c; do
        clang-19 -O2 -g -target bpf -mcpu=v3 -I"/usr/include/$(uname -m)-linux-gnu" -c "$source" \
            -o "$1/$(basename "$source").o"
    done
}

# NFP instructions beside those of Linux's translator, from Debian's package linux-source-6.1:
# random programs, the examples and the objects of libxdp1.
objects() {
    if ! tests/nfp_translator/build.sh >/dev/null; then
        echo "the NFP translator of Linux left out: see above" >&2
        return
    fi
    folder=$(mktemp -d)
    compile_xdp "$folder"
    NICFORGE_NFP_PROGRAMS=$((programs * 7 / 10)) NICFORGE_NFP_SEED=$SOAK_SEED \
        NICFORGE_NFP_OBJECTS="$(printf '%s ' "$folder"/*.o $(dpkg -L libxdp1 | grep '\.o$'))" \
        cargo test --release -q -p nicforge-isa --test nfp_translator -- --ignored --nocapture
    rm -r "$folder"
}

# What the tests replay is where fuzzing starts.
fuzzing() {
    if ! cargo fuzz --version >/dev/null 2>&1; then
        echo "fuzzing left out: cargo-fuzz is missing;" \
            "\`rustup toolchain install nightly && cargo install cargo-fuzz\`" >&2
        return
    fi
    seeds=tests/corpus
    fuzzed=(air pcap tables spec plan object lift ebpf nfp rv32 rv32_elf spin_match spin_image)
    fuzzed+=(balance netlist)
    mkdir -p "${fuzzed[@]/#/fuzz/corpus/}"
    cp crates/ir/src/text/*.air crates/passes/tests/fixtures/*.air fuzz/corpus/air/
    cp $seeds/pcap/* fuzz/corpus/pcap/
    cp $seeds/tables/* fuzz/corpus/tables/
    cp targets/*.toml fuzz/corpus/spec/
    compile_xdp fuzz/corpus/lift
    cp $seeds/plans/* fuzz/corpus/plan/
    cp $seeds/netlist/* fuzz/corpus/netlist/
    for profile in crates/balance/profiles/*.toml; do
        { printf '\1'; cat "$profile"; } >"fuzz/corpus/balance/$(basename "$profile")"
    done
    for target in "${fuzzed[@]}"; do
        cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -max_len=65536
    done
}

# A step that is a function of this script, in a process of its own.
if [ "${1:-}" = --within ]; then
    "$2"
    exit
fi

jobs=()
names=()
chosen=("$@")
# A name, and a command with its environment in front.
job() {
    local name=$1
    shift
    names+=("$name")
    if [ ${#chosen[@]} -eq 0 ] || [[ " ${chosen[*]} " == *" $name "* ]]; then
        jobs+=("$name=$PWD:env $(printf '%q ' "$@")")
    fi
}
# The same for a test program: PACKAGE TEST, its environment, `--` and its arguments.
tested() {
    local package=$1 test=$2 environment=()
    shift 2
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        environment+=("$1")
        shift
    done
    [ $# -eq 0 ] || shift
    job "${package#nicforge-}-$test" "${environment[@]}" cargo test --release -q -p "$package" \
        --test "$test" -- --nocapture "$@"
}

export NICFORGE_RANDOM_PROGRAMS=$programs NICFORGE_SOAK=1
tested nicforge-tests simulated
tested nicforge-tests plans
tested nicforge-tests random_programs

tested nicforge-codegen names NICFORGE_RANDOM_PROGRAMS=$((programs / 5))

# Generated C programs as plain C and on the targets. It goes on where the last run ended: the state
# file has the next seed. A failing program is made small by a reducer of our own
# (tests/src/reduce.rs); `cvise` is not needed.
targets=xdp,host,agilio-cx,pspin,liquidio/4,panic/4,dpdk/25,u280/100
targets+=,plan:liquidio/20,plan:agilio-cx/20,plan:pspin/40,plan:xdp/10,plan:panic/20,plan:dpdk/80
tested nicforge-tests generated "NICFORGE_RANDOM_STATE=${SOAK_STATE:-$PWD/target/generated.state}" \
    "NICFORGE_RANDOM_TARGETS=${SOAK_TARGETS:-$targets}"
# Generated handlers for sPIN NICs: as code of this computer, on simulated cores, and behind the
# datapath in hardware.
tested nicforge-cli spin_generated NICFORGE_RANDOM_HANDLERS=$((programs / 40))

# Programs and random ones as hardware.
for test in fpga_faults fpga_entries fpga_waits; do
    tested nicforge-tests "$test"
done
for test in fpga fpga_chains; do
    tested nicforge-tests "$test" NICFORGE_RANDOM_DESIGNS=$((programs / 100))
done
# A million packets through the sPIN datapath in hardware, each compared.
tested nicforge-run spin_datapath -- --ignored

# Random eBPF programs as objects: in the kernel, lifted, and compiled again in the kernel. It goes
# on where the last run ended.
tested nicforge-cli lift_generated NICFORGE_RANDOM_EBPF=$((programs / 2)) \
    "NICFORGE_RANDOM_STATE=${SOAK_EBPF_STATE:-$PWD/target/ebpf.state}"
tested nicforge-tests lifted NICFORGE_RANDOM_EBPF=$((programs / 20))
# Mistakes in random eBPF programs and rewritings of them beside proofs; random packets in a row
# beside the bound.
tested nicforge-bound equal NICFORGE_RANDOM_PAIRS="$programs" NICFORGE_RANDOM_SEED="$SOAK_SEED"
tested nicforge-bound rows NICFORGE_RANDOM_ROWS="$programs" NICFORGE_RANDOM_SEED="$SOAK_SEED"
# Objects, instructions and listings with random damage, by a plain loop that needs no cargo-fuzz.
tested nicforge-bound garbage NICFORGE_FUZZ_SECONDS="$seconds" NICFORGE_FUZZ_SEED="$SOAK_SEED"
# The RV32 core against qemu on a tenth of the programs, instruction by instruction, and damaged
# code and files.
tested nicforge-isa rv32 NICFORGE_RV32_PROGRAMS=$((programs / 10)) \
    NICFORGE_FUZZ_SECONDS="$seconds" NICFORGE_FUZZ_SEED="$SOAK_SEED"
# Published figures of caches and queues beside ours.
tested nicforge-cli flow -- --ignored

# All of the Python tests, with what `make test` leaves out.
pytest=("$NICFORGE_PYTHON/bin/pytest" -q -m "soak or not soak" -p no:cacheprovider)
job flow-programs NICFORGE="$PWD/target/release/nicforge" "${pytest[@]}" python/tests
job hardware-library "${pytest[@]}" rtl/tests
job examples-with-other-clangs scripts/soak.sh --within examples
job nfp-translator scripts/soak.sh --within objects
job fuzzing scripts/soak.sh --within fuzzing

for step in "${chosen[@]}"; do
    if [[ " ${names[*]} " != *" $step "* ]]; then
        echo "soak.sh: there is no step \`$step\`; there are:" >&2
        printf '    %s\n' "${names[@]}" >&2
        exit 2
    fi
done

logs=$PWD/target/soak
mkdir -p "$logs"
passed=$logs/$(git rev-parse --short HEAD).passed
[ -z "${SOAK_AGAIN:-}" ] || rm -f "$passed"
cargo build --release -q -p nicforge-cli -p nicforge-bench -p nicforge-python
# A few steps compile what they need themselves.
[ ${#chosen[@]} -gt 0 ] || cargo test --release -q --no-run --workspace
: >"$logs/none.json"
as_root env "PATH=$PATH" NICFORGE_JOB_MINUTES="${NICFORGE_JOB_MINUTES:-1440}" \
    "$NICFORGE_PYTHON/bin/python" scripts/tests.py --passed "$passed" "$logs" "$logs/none.json" \
    "${jobs[@]}"
