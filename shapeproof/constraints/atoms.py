"""The atoms of terms, except floor division: what each atom is, and when it is defined.

Use the functions of terms.py to make atoms: these functions bring the arguments into canonical form first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from shapeproof.constraints import operators
from shapeproof.constraints.nodes import Named, Node, union
from shapeproof.constraints.reals import Real

if TYPE_CHECKING:
    from shapeproof.constraints.formulas import Formula
    from shapeproof.constraints.terms import Term


class Symbol(Named):
    """An integer whose value comes from the environment."""

    __slots__ = ()
    rank = 0


class Extremum(Node):
    """The least (sense 1) or the greatest (sense -1) of two or more terms."""

    __slots__ = ("args",)
    __match_args__ = ("args",)
    sense: ClassVar[int]
    args: tuple[Term, ...]


class Min(Extremum):
    """The least of two or more terms."""

    __slots__ = ()
    rank, sense = 2, 1


class Max(Extremum):
    """The greatest of two or more terms."""

    __slots__ = ()
    rank, sense = 3, -1


class Where(Node):
    """`then if condition else otherwise`: only the chosen side has to be defined."""

    __slots__ = ("condition", "otherwise", "then")
    __match_args__ = ("condition", "then", "otherwise")
    rank = 4
    condition: Formula
    then: Term
    otherwise: Term

    def own_obligations(self) -> frozenset[Node]:
        """Return the atom itself: its obligations depend on which side is chosen."""
        return frozenset({self})


class Apply(Node):
    """A function of `operators.INTEGER`. It can be evaluated; canonical form has no algebra for it."""

    __slots__ = ("args", "op")
    __match_args__ = ("op", "args")
    rank = 5
    op: str
    args: tuple[Term | Real, ...]

    def _is_total(self) -> bool:
        return self.op in operators.NEVER_RAISE and super()._is_total()

    def own_obligations(self) -> frozenset[Node]:
        """Return the obligations of the arguments, and the atom itself if its function can raise."""
        own: frozenset[Node] = frozenset() if self.op in operators.NEVER_RAISE else frozenset({self})
        return union(super().own_obligations(), own)


class Unknown(Node):
    """An integer function without a meaning. It cannot be evaluated, but equal arguments give equal values."""

    __slots__ = ("args", "name")
    __match_args__ = ("name", "args")
    rank = 6
    name: str
    args: tuple[Term | Real, ...]
