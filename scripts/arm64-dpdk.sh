#!/usr/bin/env bash
# Fetches Debian's DPDK for arm64, which target bluefield2 links statically, into a folder of its
# own: nothing is installed and no foreign architecture is added to this machine. Done once;
# $NICFORGE_ARM64 says where (env.sh has the default).
#
# apt downloads from where this machine's packages come from and checks signatures, with lists and a
# cache of its own; 13 MB of lists, 13 MB of packages, 75 MB unpacked.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

root=$NICFORGE_ARM64
[ -e "$root/complete" ] && exit 0
echo "bootstrap: fetching DPDK for arm64 into $root" >&2
mkdir -p "$root"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/debs"
options=(
    -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=
    -o Dir::State::Lists="$work/lists" -o Dir::State::status=/dev/null -o Dir::Cache="$work/cache"
    -o Debug::NoLocking=1
)
apt-get "${options[@]}" update >/dev/null
(cd "$work/debs" && apt-get "${options[@]}" download libdpdk-dev libnuma-dev libfdt-dev \
    libbsd-dev libmd-dev >/dev/null)
for package in "$work"/debs/*.deb; do
    dpkg -x "$package" "$root"
done
touch "$root/complete"
