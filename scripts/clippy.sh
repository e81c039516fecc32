#!/bin/sh
# The compiler of this workspace with clippy in it: what is linted need not be checked apart first.
# Warnings are errors.
export CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
exec "$(dirname "$0")/rustc.sh" clippy-driver "$@"
