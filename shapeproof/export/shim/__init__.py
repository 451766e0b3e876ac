"""All code that knows torch's private names, dim classes, pytrees, storages and releases; it decides nothing.

inputs/    example inputs and `dynamic_shapes`, by source names
numbers/   symbolic numbers: float arithmetic as Python wrote it
process/   torch's process-wide state: logs, garbage, threads, transforms, ranks
programs   structures, storages, strides, consumers      trees.py, storages.py
models     parameters, buffers, submodules; on `meta`      modules.py
no data    layouts that torch knows; unseen reads         without_data.py
memory     lent to copies until they are written      lending.py
archives   programs in files, checked before loading     archives.py
runs       guards; checks on data as nodes               guarding.py
blocks     values of attributes and context variables     replaced.py
callers    torch's functions on the call stack           callers.py
gradients  autograd's work, recorded                    autograd.py
loops      a body recorded within a program; `scan`     bodies.py
operators  custom operators                              custom_operators.py
releases   supported versions of torch                   versions.py
"""
