"""Text that does nothing but stand there, whatever is in it: names, messages and paths come from anywhere.

Laws: what is given has no control character but the line feed (a name: not even that), nothing that turns the
direction of writing, and nothing that cannot be encoded; text without such characters stays as it is.
"""

from __future__ import annotations

import re
import unicodedata

_ACTS = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Control characters, halves of surrogate pairs, and what separates lines and paragraphs."""
_TURNS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_COMMAND = re.compile(r"^(\s*):(?=:)", re.MULTILINE)


def plain(text: str) -> str:
    r"""A text of several lines, of which each character that acts is shown by its number.

    >>> plain("one\n\x1b[31mtwo")
    'one\n\\x1b[31mtwo'
    """
    return "".join(each if each in "\n\t" else _shown(each) for each in text)


def plain_line(text: str) -> str:
    r"""The same on one line.

    >>> plain_line("a\nb")
    'a\\nb'
    """
    return "".join(map(_shown, text))


def no_command(text: str) -> str:
    """A text in which GitHub's runner finds no command: neither `::name::` at the start of a line nor `##[name]`.

    >>> no_command(" ::error::no ##[error]no")
    ' : :error::no # #[error]no'
    """
    return _COMMAND.sub(r"\1: ", text).replace("##[", "# #[")


def _shown(character: str) -> str:
    acts = unicodedata.category(character) in _ACTS or character in _TURNS
    return character.encode("unicode_escape").decode("ascii") if acts else character
