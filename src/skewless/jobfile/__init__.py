"""Queries described in TOML files: read, checked in full, and told by line what is wrong with them.

Nothing here starts Spark or imports it: `load_jobs` turns a file into a `JobFile` or raises a
`JobFileError` that names the file, the line, the key, the value received and what is accepted, for
all that is wrong with it.
"""

from skewless.jobfile.job import load_jobs, read_jobs
from skewless.jobfile.model import Job, JobFile, Sink, Source, Step

__all__ = ["Job", "JobFile", "Sink", "Source", "Step", "load_jobs", "read_jobs"]
