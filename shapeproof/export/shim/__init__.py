"""What knows torch's private names, dim classes, pytrees, storages and releases. It concludes nothing.

inputs/    example inputs and `dynamic_shapes`, by source names
numbers/   symbolic numbers: float arithmetic as Python wrote it
process/   what torch keeps in the process: logs, garbage, threads, transforms, ranks
programs   structures, storages, strides, consumers      trees.py, storages.py, strides.py, consumers.py
models     parameters, buffers and submodules            modules.py
archives   programs in files, looked through first       archives.py
runs       guards; checks on data as nodes               guarding.py, asynchronous.py
callers    torch's functions that a call comes from     callers.py
gradients  autograd's work, recorded                    autograd.py
operators  that are not torch's own                      custom_operators.py
releases   which are known                               versions.py
"""
