#!/bin/sh
# The compiler of this workspace (.cargo/config.toml). Tests are not optimised: each library is
# compiled a second time for its unit tests, which do little; those of `balance` simulate much.
#
# Crates are optimised in sixteen parts. In dev builds the parts are not joined again: that took a
# quarter of the build, and tests are no faster for it. (With `lto` in the profile, cargo builds
# libraries in two ways.)
rustc=$1
shift
tests='' release=''
for argument in "$@"; do
    case $argument in
    --test) tests=yes ;;
    opt-level=3) release=yes ;;
    esac
done
[ -n "$release" ] || set -- "$@" -C lto=off
[ -z "$tests" ] || [ "${CARGO_PKG_NAME:-}" = nicforge-balance ] || set -- "$@" -C opt-level=0
exec "$rustc" "$@"
