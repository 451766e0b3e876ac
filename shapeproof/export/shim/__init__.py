"""What knows torch's private names, dim classes, pytrees, storages and releases. It concludes nothing.

inputs     example inputs and `dynamic_shapes`, by source names   binding.py, dims.py, marks.py, profiles.py
programs   symbolic sizes, structures, storages, consumers        symbols.py, trees.py, storages.py, consumers.py
models     parameters, buffers and submodules as they are held    modules.py
archives   programs in files, looked through before torch does    archives.py
runs       guards, how inputs lie in memory, what they hold       guarding.py, strides.py, containers.py
tracing    hash and text of numbers, transforms that a trace leaves  protocols.py, transforms.py
numbers    float arithmetic as Python wrote it                    doubles.py, sym_nodes.py, recording.py
process    noise, garbage, one thread at a time, releases         quiet.py, collecting.py, one_thread.py, versions.py
operators  that are not torch's own, and their kernels in Python   custom_operators.py
ranks      where the ranks of torch.distributed have met          ranks.py
checks     checks on data as nodes                                asynchronous.py
gradients  autograd's work, recorded                              autograd.py
"""
