"""Figures for Prometheus: of the queries of this process, or of any checkpoints."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from skewless.engine.listeners import on_batch
from skewless.engine.report import BatchReport
from skewless.errors import ArgumentError
from skewless.monitor.following import EVERY_S
from skewless.monitor.reading import NOTHING, CheckpointReader, Status
from skewless.monitor.serving import Serving, check_port, in_address, not_free

log = logging.getLogger("skewless")

PREFIX = "skewless_"
SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
SECOND_US, SECOND_MS = 1_000_000, 1000


class BatchMetrics:
    """The figures of batches, by query: its checkpoint is its label."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._batches = self._counter("batches", "Batches that were committed.")
        self._rows_in = self._counter("rows_in", "Rows taken in.", "input")
        self._rows_out = self._counter("rows_out", "Rows emitted by the last operator.")
        self._dropped = self._counter("dropped_rows", "Rows that took no part.", "cause")
        self._phases = self._counter("phase_seconds", "Seconds of each phase.", "phase")
        self._changes = self._counter("changes", "Changes of the placement.", "kind")
        self._refused = self._counter("changes_refused", "Changes that were refused.", "kind")
        self._seconds = Histogram(
            f"{PREFIX}batch_seconds", "Seconds of a batch, up to its commit.", ["query"],
            registry=self.registry, buckets=SECONDS,
        )  # fmt: skip
        self._last_batch = self._gauge("last_batch", "The number of the last batch.")
        self._state_rows = self._gauge("state_rows", "Rows in the state.")
        self._state_bytes = self._gauge("state_bytes", "Bytes of the state.")
        self._instances = self._gauge("instances", "Instances of the last operator.")
        self._busiest = self._gauge("busiest_over_mean", "Work of the busiest over the mean.")
        self._lag = self._gauge(
            "watermark_lag_seconds", "Seconds of the watermark behind the latest event."
        )
        self._watermark = self._gauge(
            "watermark_timestamp_seconds", "The watermark, in seconds since 1970."
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(PREFIX + name, text, ["query", *labels], registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(PREFIX + name, text, ["query"], registry=self.registry)

    def observe(self, query: str, report: BatchReport) -> None:
        """Take note of a batch."""
        self._batches.labels(query).inc()
        self._rows_out.labels(query).inc(report.matches)
        self._seconds.labels(query).observe(report.duration_ms / SECOND_MS)
        for name, rows in report.rows.items():
            self._rows_in.labels(query, name).inc(rows)
        for cause, rows in report.dropped.items():
            self._dropped.labels(query, cause).inc(rows)
        for phase, ms in report.phases_ms.items():
            self._phases.labels(query, phase).inc(ms / SECOND_MS)
        for decision in report.decisions:
            counted = self._changes if decision.accepted else self._refused
            counted.labels(query, decision.kind).inc()
        self._note_last(query, report)

    def _note_last(self, query: str, report: BatchReport) -> None:
        self._last_batch.labels(query).set(report.batch_id)
        self._state_rows.labels(query).set(report.state_rows)
        self._state_bytes.labels(query).set(report.state_bytes)
        self._instances.labels(query).set(len(report.instances))
        self._busiest.labels(query).set(report.busiest_over_mean)
        if report.watermark_us is not None:
            self._watermark.labels(query).set(report.watermark_us / SECOND_US)
            if report.latest_us is not None:
                lag_us = report.latest_us - report.watermark_us
                self._lag.labels(query).set(lag_us / SECOND_US)


class MetricsServer(Serving):
    """Metrics at an address of this process, until it is stopped. `ends` are called by then."""

    def __init__(
        self, metrics: BatchMetrics, host: str, port: int, ends: Sequence[Callable[[], object]]
    ) -> None:
        check_port(port)
        try:
            self._server, self._thread = start_http_server(port, host, metrics.registry)
        except OSError as error:
            raise not_free(host, port, error) from None
        self._ends = list(ends)
        shown = in_address(host)
        self.url = f"http://{shown}:{self._server.server_port}/metrics"

    def stop(self) -> None:
        """End it. Stopping it again does nothing."""
        while self._ends:
            self._ends.pop()()
        if self._thread.is_alive():
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    def __repr__(self) -> str:
        return f"MetricsServer({self.url})"


def metrics_of_this_process(host: str, port: int) -> MetricsServer:
    """What the queries of this process do from now on."""
    metrics = BatchMetrics()
    subscription = on_batch(metrics.observe)
    try:
        return MetricsServer(metrics, host, port, [subscription.remove])
    except ArgumentError:
        subscription.remove()
        raise


class HistoryMetrics:
    """Metrics from the reports in checkpoints. Counters begin with the last batch that is there: a
    batch is never counted twice, nor are those of long ago told as new."""

    def __init__(self, checkpoints: Sequence[str], every_s: float = EVERY_S) -> None:
        self.metrics = BatchMetrics()
        self._readers = [CheckpointReader(checkpoint) for checkpoint in checkpoints]
        self._every_s = every_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="skewless-metrics", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self) -> None:
        """Count what is new."""
        for reader in self._readers:
            for report in _new_reports(reader):
                self.metrics.observe(reader.location, report)

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            try:
                self.look()
            except Exception:
                log.exception("could not count the batches of checkpoints; the next look may")


def _new_reports(reader: CheckpointReader) -> list[BatchReport]:
    """What came since the last look, in order; at the first, the last batch alone."""
    look = reader.look(budget_s=0)
    if look.forget_after == NOTHING:
        reader.leave_out_older()
        return list(look.reports[-1:])
    found = list(look.reports)
    while look.waiting and look.status is Status.HERE:
        look = reader.look()
        found += look.reports
    return sorted(found, key=lambda report: report.batch_id)


def metrics_of(checkpoints: Sequence[str], host: str, port: int) -> MetricsServer:
    """What the queries of some checkpoints do, in this process or another."""
    followed = HistoryMetrics(checkpoints)
    server = MetricsServer(followed.metrics, host, port, [followed.stop])
    followed.look()
    followed.start()
    return server
