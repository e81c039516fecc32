"""Whether slang, a front end for SystemVerilog that keeps to IEEE 1800, takes files without a word.

accepted.py FILE ...

Modules that no other one instantiates are elaborated with their own parameters. Prints errors, and
the warnings that slang gives unless asked for more; status 1 if there are any.
"""

import sys

from pyslang.driver import Driver


def complaints(files):
    """Prints what slang says about the files; how many errors and warnings."""
    driver = Driver()
    driver.addStandardArgs()
    words = " ".join(f'"{file}"' for file in files)
    read = driver.parseCommandLine(f"slang {words}") and driver.processOptions()
    if not read or not driver.parseAllSources():
        return 1
    driver.reportCompilation(driver.createCompilation(), True)
    return driver.diagEngine.numErrors + driver.diagEngine.numWarnings


if __name__ == "__main__":
    sys.exit(1 if complaints(sys.argv[1:]) else 0)
