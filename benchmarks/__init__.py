"""Benchmarks, one file per question. Each prints a table, or with ``--json`` one JSON object.

- `native`: how does skewless compare with Spark's own stream-stream join?
- `state_growth`: does a batch take longer when there is more state?
- `balance`, `skew_on_spark`: how even is the work, on a virtual cluster and on Spark?
- `grouping`: how do the groupings of a stream compare, and with their papers?
- `aggregate`: how does keyed aggregation compare with Spark's own?
- `three_way`: how do the ways to join three streams compare, and with Spark's chained joins?
- `similarity`: what do worksets save, and what does a similarity join cost?

Whatever is measured runs in a process of its own (`child`), watched from outside (`measure`).
"""
