"""Joining rows that are alike: distances in a metric space, and what need not be compared."""
