"""Inputs and declarations as torch reads them.

binding.py        inputs and `dynamic_shapes`, bound to parameters by torch's source names
containers.py     the contents of containers among the inputs
dims.py           one entry of `dynamic_shapes`
                  marks on a tensor's dimensions
spec_language.py  torch's `ShapesSpec`
profiles.py       sizes that torch.compile has seen to vary
"""
