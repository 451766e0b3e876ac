"""Process-wide state of torch and Python, controlled during an export. No file here answers a question about sizes.

one_thread.py      one export at a time
quiet.py           logs and warnings
idle_work.py       the garbage collector, compiled branches, threads that wait for each other
deferred_code.py   the Python code of graphs, generated once
noted_lines.py     the model's lines with each node, cheaply
each_call.py       a check before each operator runs; a watch while torch.export runs a model
attention.py       what torch.nn's attention gives in eager
contiguous.py      the method `contiguous`, which asks outside of any operator
transforms.py      the stack of torch.vmap and similar transforms
modes.py           modes and seeds that no graph shows
default_device.py  the default device, cheaply
unrun.py           the graph's record of an operator that was not run, and memory formats
ranks.py           the store that ranks share
"""
