#!/bin/sh
# The compiler of this workspace (.cargo/config.toml). Tests are not optimised: each library is
# compiled a second time for its unit tests, which do little.
rustc=$1
shift
for argument in "$@"; do
    if [ "$argument" = --test ]; then
        exec "$rustc" "$@" -C opt-level=0
    fi
done
exec "$rustc" "$@"
