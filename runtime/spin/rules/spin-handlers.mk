# Handlers of an application: SPIN_APP_NAME, SPIN_APP_SRCS, SPIN_CFLAGS, SPIN_LDFLAGS say what is built, as in PsPIN's examples.
include $(dir $(lastword $(MAKEFILE_LIST)))/spin-rt.mk

build/$(SPIN_APP_NAME): $(SPIN_APP_SRCS)
	@mkdir -p build
	$(NICFORGE) spin build $^ -o $@ --machine $(SPIN_MACHINE) -- $(SPIN_CFLAGS) $(EXTRA_CFLAGS) $(DEFINITIONS) $(SPIN_LDFLAGS)

all:: deploy

runtime runtime-debug: build/$(SPIN_APP_NAME)

deploy:: build/$(SPIN_APP_NAME)
	@mkdir -p build/slm_files
	cp build/$(SPIN_APP_NAME) build/slm_files/image.elf
	riscv64-unknown-elf-objdump -d build/$(SPIN_APP_NAME) > build/$(SPIN_APP_NAME).disasm

clean::
	rm -rf build

.PHONY: all runtime runtime-debug deploy clean
