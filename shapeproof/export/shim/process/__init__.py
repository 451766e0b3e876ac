"""What torch and Python keep for the whole process, kept in order around an export.

one_thread.py   one export at a time
quiet.py        logs and warnings
collecting.py   the garbage collector
transforms.py   the stack of torch.vmap and its kind
ranks.py        where ranks meet
"""
