"""Conditions as Spark's own parser and analyser understand them, translated for Arrow."""

from __future__ import annotations

from . import casts, rules, to_json  # these register themselves
from .translation import Untranslatable, of_tree, translated, translated_on

__all__ = ["Untranslatable", "casts", "of_tree", "rules", "to_json", "translated", "translated_on"]
