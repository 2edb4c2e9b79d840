"""Rows are copied to every set that may hold a partner; each set is worked on by its owner."""
