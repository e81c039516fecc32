# Where things are; images are built by nicforge itself.
NICFORGE ?= nicforge
SPIN_MACHINE ?= @MACHINE@
SPIN_SDK := $(abspath $(dir $(lastword $(MAKEFILE_LIST)))/..)
