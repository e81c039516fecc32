# make demo   compiles examples/nf_chain, runs it in the kernel on real packets and compares with the interpreter
# make check  format, lint, unit tests, text fixtures and one run in the kernel: before each commit
# make test   everything CI runs
# make soak   the long runs: fuzzing and thousands of random programs; STEPS=... for some of them
# make mutants  how many small mistakes the tests of a crate find (needs cargo-mutants)
# make dist   a wheel in dist/ for pip, and of it a package for Debian (apt install ./dist/*.deb)
# All install what they need on a Debian 12 machine (as root or with sudo); the second time takes seconds.

.PHONY: dist demo check test mutants soak bench bootstrap build clean

build:
	@scripts/bootstrap.sh --build
	@. scripts/env.sh && cargo build --release -q -p nicforge-cli -p nicforge-python

bootstrap:
	@scripts/bootstrap.sh

dist: build
	@. scripts/env.sh && NICFORGE_BINARY=target/release/nicforge python3 -m pip -q wheel --no-deps -w dist .
	@python3 scripts/deb.py "$$(ls -t dist/nicforge-*.whl | head -n 1)" dist
	@ls dist/nicforge-*.whl

demo: build
	@. scripts/env.sh && as_root target/release/nicforge run examples/nf_chain/nf_chain.c --target xdp

check:
	@scripts/test.sh check

test:
	@scripts/test.sh

bench: bootstrap build
	@. scripts/env.sh && bench/run.sh

soak: bootstrap
	@scripts/soak.sh $(STEPS)

mutants: bootstrap
	@. scripts/env.sh && scripts/mutants.py codegen passes frontend ir

clean:
	cargo clean
