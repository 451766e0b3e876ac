"""A hook of mkdocs: a page of the site that would load anything from another host ends the build."""

from __future__ import annotations

import re
from typing import Any

LOADED = re.compile(
    r"""<(?:script|img|iframe|source|link(?![^>]*rel="?canonical))[^>]*\b(?:src|href)="?((?:https?:)?//[^"\s>]+)"""
)


def foreign(page: str) -> list[str]:
    """The addresses that a page loads from other hosts; a link that a reader follows is none.

    >>> foreign('<a href="https://a.org">a</a><link rel="icon" href="https://b.org/b.png"><script src="//c.org/c.js">')
    ['https://b.org/b.png', '//c.org/c.js']
    """
    return LOADED.findall(page)


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """Refuse a page that loads from elsewhere."""
    if found := foreign(output):
        raise SystemExit(f"{page.file.src_path} loads from elsewhere: {', '.join(found)}")
    return output
