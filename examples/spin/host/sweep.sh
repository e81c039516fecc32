#!/usr/bin/env bash
# Files over SLMP with several windows and ways, how many of them fail, and what iperf3 does over
# the same interfaces past the handlers. Run as root after `make`: ./sweep.sh [BYTES [TIMES [MORE
# FOR spin run]]], for example ./sweep.sh 1000000 5 --loss 1%
set -euo pipefail
cd "$(dirname "$0")"
if [ "${SWEEP_INSIDE:-}" != yes ]; then
    SWEEP_INSIDE=yes exec unshare --net "$0" "$@"
fi
bytes=${1:-1000000} times=${2:-5}
shift $(($# < 2 ? $# : 2))
nicforge=${NICFORGE:-nicforge}
work=$(mktemp -d)
export NICFORGE_PSPIN=$work/nic
started=()
end() {
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait
    rm -rf "$work"
}
trap end EXIT
until_so() {
    for _ in $(seq 200); do
        if eval "$1" 2>/dev/null >&2; then return; fi
        sleep 0.05
    done
    echo "sweep: not so after ten seconds: $1" >&2
    exit 1
}

# The host's side of the NIC is in a namespace of its own: what no handler wants goes there, iperf3
# among it.
ip link set lo up
unshare --net sleep 100000 &
started+=($!)
host=$!
until_so "[ \"\$(readlink /proc/$host/ns/net)\" != \"\$(readlink /proc/self/ns/net)\" ]"
inside() { nsenter --net --target "$host" "$@"; }
"$nicforge" spin run --device "$NICFORGE_PSPIN" --tap spin0 --address 10.9.0.1/24 --host-tap \
    host0 "$@" 2>"$work/nic.err" >"$work/nic.out" &
started+=($!)
until_so "grep -q 'on spin0' $work/nic.err"
ip link set host0 netns "$host"
inside ip address add 10.9.0.2/24 dev host0
inside ip link set host0 up
inside ip link set lo up
./slmp_host build/slmp_receive "$work/got" -1 "$bytes" >"$work/host.out" &
started+=($!)
until_so "grep -q ready $work/host.out"

head -c "$bytes" /dev/urandom >"$work/file"
printf '%-28s %10s %8s\n' way Mbit/s failed
sweep() {
    local name=$1
    shift
    ./slmp_send -s 10.9.0.2 -f "$work/file" -n "$times" "$@" >"$work/sent" 2>/dev/null || true
    awk -v name="$name" -v times="$times" '/Mbit/ { sum += $1; n++ }
        END { printf "%-28s %10s %5d/%d\n", name, n ? sprintf("%.1f", sum / n) : "-", times - n, times }' "$work/sent"
}
for window in 1 2 4 8 16 32 64 128 256 512; do
    sweep "window $window" -w "$window"
done
for threads in 2 4; do
    sweep "window 64, $threads threads" -w 64 -t "$threads"
done
sweep "no acknowledgements" -w 0
sweep "no acknowledgements, 200 us" -w 0 -i 200
# Intact is what came with acknowledgements; the last of it is compared.
last=$(ls -v "$work"/got-*.out | tail -n 1)
cmp -s "$work/file" "$last" && echo "the last file received is intact" || echo \
    "the last file received has gaps (no acknowledgements)"

inside iperf3 -s -1 >/dev/null &
started+=($!)
until_so "inside ss -ltn | grep -q :5201"
iperf3 -c 10.9.0.2 -u -b 400M -l 1408 -t 2 -J >"$work/iperf" || true
python3 - "$work/iperf" <<'PYTHON'
import json, sys
end = json.load(open(sys.argv[1]))["end"]["sum"]
arrived = end["bits_per_second"] * (1 - end["lost_percent"] / 100) / 1e6
print(f"{'iperf3, UDP past handlers':28} {arrived:10.1f} {end['lost_percent']:7.1f}%")
PYTHON
