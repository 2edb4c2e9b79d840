"""Keys that people are not to see: hashed with a salt of the checkpoint wherever they are told.

Reports, decisions and the log name heavy keys by value. On request they say a hash instead, which
is the same as long as the checkpoint lives, and says nothing without its salt.
"""

from __future__ import annotations

import os

from skewless.state.files import Folder

SALT = "salt"


def make_salt(folder: Folder) -> None:
    """See to it that a checkpoint has a salt: once, whoever comes first."""
    folder.create(SALT, os.urandom(32))


def salt_of(folder: Folder) -> bytes:
    return folder.read(SALT)
