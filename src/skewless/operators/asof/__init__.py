"""Each left row with the one right row nearest in time."""
