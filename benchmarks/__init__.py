"""Benchmarks, one file per question. Each prints a table, or with ``--json`` one JSON object.

- `native`: how does skewless compare with Spark's own stream-stream join?
- `state_growth`: does a batch take longer when there is more state?

Whatever is measured runs in a process of its own (`child`), watched from outside (`measure`).
"""
