"""Process-wide state of torch and Python, controlled during an export. No file here answers a question about sizes.

one_thread.py      one export at a time
idle_work.py       the garbage collector, compiled branches, threads that wait for each other
                   the Python code of graphs, generated once
                   logs and warnings
noted_lines.py     the model's lines with each node, cheaply
as_eager.py        what torch.nn's attention gives in eager
                   the method `contiguous`, which asks outside of any operator
transforms.py      the stack of torch.vmap and similar transforms
modes.py           modes and seeds that no graph shows
default_device.py  the default device and modes that see each call, cheaply
each_call.py       the graph's record of an operator that was not run, and memory formats
                   a check before each operator runs; a watch while torch.export runs a model
ranks.py           the store that ranks share
"""
