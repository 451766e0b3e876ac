"""One call of a served model.

calls.py      the call, read: its form, its sizes
state.py      the model's own tensors and modes
attributes.py what else it keeps, as programs have it
gate.py       nothing runs while a model is traced
backends.py   what runs a program: the graph, torch.compile, AOTInductor, ONNX Runtime
"""
