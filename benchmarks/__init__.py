"""Verified export against torch.export on the same models. Not part of the installed package."""
