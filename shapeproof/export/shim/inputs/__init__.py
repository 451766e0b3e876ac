"""Inputs and declarations as torch reads them.

binding.py      inputs and `dynamic_shapes`, bound to parameters by torch's source names
containers.py   what containers among the inputs hold
dims.py         one entry of `dynamic_shapes`
marks.py        marks on a tensor's dimensions
profiles.py     what torch.compile has learned
"""
