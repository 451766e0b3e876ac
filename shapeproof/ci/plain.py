"""Escapes text from untrusted sources (names, messages, paths) so that it cannot control a terminal.

Law: the result has no control character but line feed and tab (a name: neither), no character that changes the
direction of writing, and no character that cannot be encoded. Text without such characters stays unchanged.
"""

from __future__ import annotations

import re
import unicodedata

_ACTS = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Categories of control characters, surrogates, and separators of lines and paragraphs."""
_TURNS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_COMMAND = re.compile(r"^(\s*):(?=:)", re.MULTILINE)


def plain(text: str) -> str:
    r"""Escape the control characters of a text of several lines; keep line feeds and tabs.

    >>> plain("one\n\x1b[31mtwo")
    'one\n\\x1b[31mtwo'
    """
    return "".join(each if each in "\n\t" else _shown(each) for each in text)


def plain_line(text: str) -> str:
    r"""Escape the control characters of a text for one line, including line feeds and tabs.

    >>> plain_line("a\nb")
    'a\\nb'
    """
    return "".join(map(_shown, text))


def no_command(text: str) -> str:
    """Break GitHub's workflow commands in a text: `::name::` at the start of a line, and `##[name]` anywhere.

    >>> no_command(" ::error::no ##[error]no")
    ' : :error::no # #[error]no'
    """
    return _COMMAND.sub(r"\1: ", text).replace("##[", "# #[")


def _shown(character: str) -> str:
    acts = unicodedata.category(character) in _ACTS or character in _TURNS
    return character.encode("unicode_escape").decode("ascii") if acts else character
