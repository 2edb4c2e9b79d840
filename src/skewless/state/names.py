"""Names of files in the state folder."""

from __future__ import annotations


def is_confined(name: str) -> bool:
    """Whether a name stays within the folder that it is relative to."""
    parts = name.split("/")
    return bool(name) and not name.startswith("/") and ".." not in parts and ":" not in parts[0]
