"""Conditions and other expressions over Arrow columns, with Spark's semantics."""

from __future__ import annotations

from .tree import Condition, Expression, evaluate, matching

__all__ = ["Condition", "Expression", "evaluate", "matching"]
