"""Tables outside that get every batch once: Delta, Iceberg, databases.

They are written before our commit. What they get of a batch comes with a mark that names query and
batch, in one commit of theirs; a batch whose mark is there is not written again.
"""
