"""Keyed aggregation: partial results per instance, merged when a window closes."""
