"""Programs of Floem (OSDI'18) as they are: `python -m nicforge.floem check|run|survey FILE`. docs/floem.md is the guide.

`model` is what a module finds when it imports `floem`, `load` runs it, `lower` makes flow programs
of it (nicforge.flow), `calls` lets its C code call them.
"""
