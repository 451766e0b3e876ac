"""The base of terms, atoms, reals and formulas: immutable nodes of one interned graph.

Two nodes with equal fields are the same object, so `is` (and the default `==` and `hash`) is structural equality. The
table keeps every node for the life of the process: one export makes some thousands of distinct nodes of about a
kilobyte each. Memoised functions of nodes are bounded by `MEMORY`.

Law: code never recurses over nodes, because they may nest thousands deep. Use `postorder`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from typing import Any, ClassVar, Self

MEMORY = 2**13
"""The number of results that one function memoises; a large export needs fewer."""

_TABLE: dict[tuple[Any, ...], Any] = {}
_LONGEST_LABEL = 60


class Node:
    """An immutable, interned node. `Class(*fields)` returns the one node with these fields.

    `children` are the nodes that it consists of. `total` is True if evaluation is known not to raise, whatever integers
    the symbols stand for. `key` is a total order that depends on the node's structure only, not on the history of the
    process.
    """

    __slots__ = ("children", "key", "named", "obliged", "total")
    __match_args__: ClassVar[tuple[str, ...]] = ()
    rank: ClassVar[int]  # the order among nodes of different classes
    in_text: ClassVar[Callable[[Any], str]]  # the language builds on every node: syntax/text.py sets both
    of_text: ClassVar[Callable[[str], Any]]

    children: tuple[Node, ...]
    key: tuple[int, int, str]
    total: bool
    obliged: frozenset[Any] | None  # memoised `obligations` of this node
    named: frozenset[str] | None  # memoised `symbols`

    def __new__(cls, *fields: Any) -> Self:
        """Return the one node of this class with these fields."""
        identity = (cls, *fields)
        found: Self | None = _TABLE.get(identity)
        return found if found is not None else _TABLE.setdefault(identity, cls._create(fields))

    @classmethod
    def _create(cls, fields: tuple[Any, ...]) -> Self:
        node = object.__new__(cls)
        for name, value in zip(cls.__match_args__, fields, strict=True):
            object.__setattr__(node, name, value)
        node._finish()
        return node

    def _finish(self) -> None:
        """Set the attributes that every node derives from its fields."""
        set_once = object.__setattr__
        set_once(self, "children", self._parts())
        label = self._label()
        if len(label) > _LONGEST_LABEL:
            label = "~" + blake2b(label.encode(), digest_size=16).hexdigest()
        set_once(self, "key", (self._depth(), self.rank, label))
        set_once(self, "total", self._is_total())
        set_once(self, "obliged", frozenset() if self.total else None)
        set_once(self, "named", None)

    def _parts(self) -> tuple[Node, ...]:
        parts: list[Node] = []
        for name in self.__match_args__:
            value = getattr(self, name)
            if isinstance(value, Node):
                parts.append(value)
            elif isinstance(value, tuple):
                parts.extend(value)
        return tuple(parts)

    def _depth(self) -> int:
        return 1 + max((child.key[0] for child in self.children), default=0)

    def _label(self) -> str:
        return f"{type(self).__name__}({','.join(map(_field_label, map(self.__getattribute__, self.__match_args__)))})"

    def _is_total(self) -> bool:
        return all(child.total for child in self.children)

    def own_obligations(self) -> frozenset[Node]:
        """Return the atoms that must be defined for this node to be; reads the memoised sets of its children."""
        return union(*(child.obliged or frozenset() for child in self.children))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: cannot set {name}")

    @property
    def symbols(self) -> frozenset[str]:
        """Every name that an environment must bind.

        >>> from shapeproof.constraints.terms import symbol
        >>> sorted((symbol("h") // symbol("w")).symbols)
        ['h', 'w']
        """
        return _derived(self, "named", lambda node: node.own_symbols())

    def own_symbols(self) -> frozenset[str]:
        """Return the names in this node; reads the memoised sets of its children."""
        return union(*(child.named or frozenset() for child in self.children))

    def __str__(self) -> str:
        return self.in_text()

    __repr__ = __str__

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).of_text, (str(self),)


class Named(Node):
    """A node whose value comes from the environment."""

    __slots__ = ("name",)
    __match_args__ = ("name",)
    name: str

    def own_symbols(self) -> frozenset[str]:
        """Return the node's own name."""
        return frozenset({self.name})

    def _depth(self) -> int:
        return 0

    def _label(self) -> str:
        return self.name if self.name.isidentifier() else repr(self.name)


def _field_label(value: object) -> str:
    if isinstance(value, Node):
        return value.key[2]
    if isinstance(value, tuple):
        return f"[{','.join(map(_field_label, value))}]"
    return repr(value)


def union(*sets: frozenset[Any]) -> frozenset[Any]:
    """Return the union; the largest set itself if it already contains the others."""
    largest: frozenset[Any] = max(sets, key=len, default=frozenset())
    return largest if all(each <= largest for each in sets) else largest.union(*sets)


@lru_cache(maxsize=MEMORY)
def postorder(root: Node) -> tuple[Node, ...]:
    """Return `root` and every node under it, once each, children before parents."""
    seen: set[Node] = set()
    order: list[Node] = []
    stack = [root]
    while stack:
        node = stack[-1]
        waiting = [child for child in node.children if child not in seen]
        if node in seen:
            stack.pop()
        elif waiting:
            stack.extend(reversed(waiting))
        else:
            seen.add(node)
            order.append(node)
            stack.pop()
    return tuple(order)


def obligations(root: Node) -> frozenset[Any]:
    """Return the atoms that must all be defined for `root` to be defined; the empty set if `root` is total.

    A divisor d appears as the atom `0 // d`, which also covers the obligations of d. The set is memoised on the node.
    """
    return _derived(root, "obliged", lambda node: node.own_obligations())


def _derived(root: Node, slot: str, derive: Callable[[Node], frozenset[Any]]) -> frozenset[Any]:
    """Return the set memoised in `slot`; if it is missing, derive it from the sets of the children first."""
    stack = [] if getattr(root, slot) is not None else [root]
    while stack:
        waiting = [child for child in stack[-1].children if getattr(child, slot) is None]
        if waiting:
            stack.extend(waiting)
        else:
            node = stack.pop()
            object.__setattr__(node, slot, derive(node))
    found: frozenset[Any] = getattr(root, slot)
    return found
