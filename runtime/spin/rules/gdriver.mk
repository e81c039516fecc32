# The driver program of an application: driver/driver.c with the generic driver beside this file.
SPIN_DRIVER_CC ?= gcc
GDRIVER := $(abspath $(dir $(lastword $(MAKEFILE_LIST))))
SPIN_DRIVER = $(SPIN_DRIVER_CC) -std=gnu11 -I$(GDRIVER) -I$(SPIN_SDK)/runtime/include \
	-I$(SPIN_SDK)/hw/verilator_model/include $(SPIN_DRIVER_CFLAGS) driver/driver.c $(GDRIVER)/gdriver.c \
	-L$(SPIN_SDK)/hw/verilator_model/lib $(SPIN_DRIVER_LDFLAGS) -lpspin

all:: driver

driver::
	$(SPIN_DRIVER) -O2 -o sim_$(SPIN_APP_NAME)

driver_debug::
	$(SPIN_DRIVER) -g -o sim_$(SPIN_APP_NAME)_debug

run::
	./sim_$(SPIN_APP_NAME) | tee transcript

clean::
	rm -f sim_$(SPIN_APP_NAME) sim_$(SPIN_APP_NAME)_debug transcript

.PHONY: driver driver_debug run
