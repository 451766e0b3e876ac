"""Conditions on sizes, which torch.cond takes."""

from __future__ import annotations

from torch._dynamo.exc import TorchDynamoException

UNREADABLE = TorchDynamoException
"""Raised by dynamo, which reads the branches of torch.cond, where it cannot read one at the sizes of the trace."""
