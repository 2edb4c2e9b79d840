"""The first row of each key within a bound of time."""
