"""From the call to `Inputs` (leaves, domain, anchors), and back from a repair to declarations.

inputs.py       what was declared, read
anchors.py      the points of the inputs that were given
from_seen.py    what was seen of inputs, as declarations
followable.py   examples that no trace can follow, refused
materialize.py  tensors of other sizes, like the example's
reading.py      one call of a model, as `Seen` has it
sources.py      torch.compile's list of dynamic sources, as declarations
redeclare.py    what to declare instead, written
deferred.py     what to declare instead of what is proved already, once it is asked for
"""
