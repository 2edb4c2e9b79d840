"""For the API reference: examples in docstrings are told from the text above them.

The docstrings say it by `>>>` alone, which doctest knows; the reader of the reference, griffe, goes
by headings.
"""

from __future__ import annotations

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = headed(obj.docstring.value)


def headed(docstring: str) -> str:
    """A docstring with a heading above its first example."""
    return re.sub(r"^>>> ", "Examples\n--------\n>>> ", docstring, count=1, flags=re.MULTILINE)
