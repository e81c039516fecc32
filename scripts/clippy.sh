#!/bin/sh
# The compiler of this workspace with clippy in it: what is linted need not be checked apart first.
# cargo looks at $CLIPPY_ARGS too, so whoever sets this wrapper sets those.
exec "$(dirname "$0")/rustc.sh" clippy-driver "$@"
