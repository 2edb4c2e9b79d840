"""Files of rows as columns: read and written by Arrow, as Spark does."""
