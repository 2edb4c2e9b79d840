"""Files as columns, read in tasks with the rows, types and nulls that Spark's own reader gives."""
