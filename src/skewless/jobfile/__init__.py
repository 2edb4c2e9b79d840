"""Joins described in TOML files: read, checked in full, and told by line what is wrong with them.

Nothing here starts Spark or imports it: `load_job` turns a file into a `Job` or raises a
`JobFileError` that names the file, the line, the key, the value received and what is accepted.
"""

from skewless.jobfile.job import Job, Sink, Source, load_job

__all__ = ["Job", "Sink", "Source", "load_job"]
