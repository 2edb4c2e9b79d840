"""A cluster with a virtual clock: the same strategies, without the rows.

A batch is a count of rows per key, work is arithmetic on these counts, and time is what the work
costs at fixed prices. So a join of millions of rows on thousands of instances is a matter of
milliseconds, and what a strategy does to it can be told exactly.
"""
