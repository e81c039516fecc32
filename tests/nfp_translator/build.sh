#!/usr/bin/env bash
# Builds the NFP translator of Linux 6.1 from Debian's package and prints where it is. Sources stay
# in a cache (NICFORGE_CACHE, default ~/.cache/nicforge) outside the repository.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${NICFORGE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/nicforge}/nfp_translator
mkdir -p "$cache"
tree=linux-source-6.1
nfp=drivers/net/ethernet/netronome/nfp
if [ ! -e "$cache/$tree/$nfp/bpf/jit.c" ]; then
    archive=/usr/src/$tree.tar.xz
    if [ ! -e "$archive" ]; then
        command -v apt-get >/dev/null || { echo "no apt-get here, and no $archive" >&2; exit 1; }
        package=$(mktemp -d)
        (cd "$package" && apt-get -qq -o APT::Sandbox::User=root download "$tree" >&2) ||
            { echo "package $tree cannot be downloaded" >&2; exit 1; }
        dpkg -x "$package"/*.deb "$package"
        archive=$package$archive
    fi
    tar -C "$cache" -xJf "$archive" --wildcards "$tree/$nfp/*" $tree/lib/math/reciprocal_div.c \
        $tree/include/linux/reciprocal_div.h
    [ -z "${package:-}" ] || rm -r "$package"
fi

# The translator's files beside empty ones for what kernel.h has instead.
build=$cache/build
rm -rf "$build"
mkdir -p "$build/bpf" "$build/linux" "$build/net"
cp "$cache/$tree/$nfp"/bpf/{jit,verifier}.c "$build/bpf/"
cp "$cache/$tree/$nfp"/bpf/{main,fw}.h "$build/bpf/"
cp "$cache/$tree/$nfp"/{nfp_asm.c,nfp_asm.h,nfp_net_ctrl.h} "$build/"
cp "$cache/$tree/lib/math/reciprocal_div.c" "$build/"
cp "$cache/$tree/include/linux/reciprocal_div.h" "$build/linux/"
for name in ccm nfp_app nfp_main nfp_net; do
    : >"$build/$name.h"
done
for name in bitfield bitops bpf_verifier bug export filter kernel list math minmax netdevice \
    rhashtable skbuff wait; do
    : >"$build/linux/$name.h"
done
mkdir -p "$build/asm"
: >"$build/asm/div64.h"
cc -O1 -g -std=gnu11 -w -include "$here/kernel.h" -I "$build" -o "$cache/judge" "$here/judge.c" \
    "$build"/bpf/{jit,verifier}.c "$build"/{nfp_asm,reciprocal_div}.c
echo "$cache/judge"
