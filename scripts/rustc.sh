#!/bin/sh
# The compiler of this workspace (.cargo/config.toml). Tests are not optimised: each library is
# compiled a second time for its unit tests, which do little; those of `balance` simulate much.
rustc=$1
shift
if [ "${CARGO_PKG_NAME:-}" != nicforge-balance ]; then
    for argument in "$@"; do
        if [ "$argument" = --test ]; then
            exec "$rustc" "$@" -C opt-level=0
        fi
    done
fi
exec "$rustc" "$@"
