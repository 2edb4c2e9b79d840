"""Conditions and other expressions over Arrow columns, with Spark's semantics."""

from __future__ import annotations

from .shape import Shape
from .tree import Condition, Expression, evaluate, matching

__all__ = ["Condition", "Expression", "Shape", "evaluate", "matching"]
