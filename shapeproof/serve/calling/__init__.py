"""One call of a served model.

calls.py      the call, read: its form, its sizes
state.py      the model's state and modes, as programs have them, compared at each call
reach.py      a walk through everything that the model's code can read
rehearsal.py  state that the model changes itself, and whether it reads it
gate.py       nothing runs while a model is traced
backends.py   what runs a program: the graph, torch.compile, AOTInductor, ONNX Runtime
"""
