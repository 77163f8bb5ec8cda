"""Prometheus metrics of a daemon (https://prometheus.io/docs/instrumenting/).

Requests, times, tokens, money, losses and errors; never contents. Several worker processes share
their counts through files in the folder named by ``PROMETHEUS_MULTIPROC_DIR``.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from functools import partial
from typing import Final

from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.service import Service
from vibe_llms.foundation.optional_packages import needing

FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS: Final = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_LATE_SECONDS: Final = (0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_MOST_MODELS: Final = 500
"""Distinct values of the label ``model``; further models are counted as ``other``."""

_UNKNOWN: Final = "unknown"
"""Label of models that have not answered yet, whose names clients could invent."""

_MOST_PENDING: Final = 1_000
_FLUSH_SECONDS: Final = 0.5
"""Requests of one kind, and seconds, after which pending counts are added to the metrics."""


class _Tally:
    """Pending counts of requests with the same labels.

    The library locks and checks each count, which takes a tenth of a small request.
    """

    __slots__ = ("cache_read", "cents", "firsts", "input", "output", "seconds")

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.firsts: list[float] = []
        self.input = self.output = self.cache_read = 0
        self.cents = 0.0


class Metrics:
    """Listener that counts requests.

    It keeps pending counts until they are read; where worker processes share their counts, for at
    most half a second.

    Args:
        service: Its concurrent requests are reported as well.

    Raises:
        DependencyError: prometheus-client is not installed.
    """

    def __init__(self, service: Service) -> None:
        with needing("serve", "prometheus-client", "Metrics"):
            import prometheus_client as prometheus

        self._prometheus = prometheus
        self._registry = prometheus.CollectorRegistry()
        self._service = service
        self._is_shared = bool(os.environ.get(FOLDER_VARIABLE))
        self._tallies: dict[tuple[str, str, str, int], _Tally] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._models: set[str] = set()
        counter, registry = prometheus.Counter, self._registry
        route = ["face", "way", "model", "status"]
        self._requests = counter("vibe_requests", "Requests.", route, registry=registry)
        self._errors = counter("vibe_errors", "What went wrong.", ["error"], registry=registry)
        broken = ["face", "way", "model", "error"]
        self._broken = counter(
            "vibe_broken_answers",
            "Answers that started and were interrupted.",
            broken,
            registry=registry,
        )
        self._tokens = counter("vibe_tokens", "Tokens.", ["model", "kind"], registry=registry)
        self._cents = counter("vibe_cost_cents", "US cents.", ["model"], registry=registry)
        self._losses = counter("vibe_losses", "Losses.", ["face", "kind"], registry=registry)
        self._seconds = prometheus.Histogram(
            "vibe_request_seconds",
            "Seconds until the end of the answer.",
            ["face", "way"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._firsts = prometheus.Histogram(
            "vibe_first_byte_seconds",
            "Seconds until the first byte of the answer.",
            ["face", "way"],
            buckets=_SECONDS,
            registry=registry,
        )
        lateness = prometheus.Histogram(
            "vibe_loop_late_seconds",
            "Delay of the event loop, measured four times a second.",
            buckets=_LATE_SECONDS,
            registry=registry,
        )
        service.watch.listeners.append(lateness.observe)
        service.endings.append(self.flush)
        gauge = partial(prometheus.Gauge, multiprocess_mode="livesum", registry=registry)
        self._busy = gauge("vibe_requests_busy", "Being answered.")
        self._waiting = gauge("vibe_requests_waiting", "Requests waiting in queues.")

    def __call__(self, record: CallRecord) -> None:
        """Count a completed request; see :data:`.records.Listener`."""
        face, way = record.face, record.way
        if not face:
            return
        model = self._name_model(record)
        key = (face, way, model, record.status)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = _Tally()
        tally.seconds.append(record.seconds)
        if record.first_seconds is not None:
            tally.firsts.append(record.first_seconds)
        usage = record.usage
        if usage is not None:
            tally.input += usage.total_input_tokens or 0
            tally.output += usage.total_output_tokens or 0
            tally.cache_read += usage.cache_read_tokens or 0
        if record.cents:
            tally.cents += float(record.cents)
        if record.error:
            self._errors.labels(record.error).inc()
            if record.status < 400:
                self._broken.labels(face, way, model, record.error).inc()
        if record.losses:
            for kind, count in Counter(loss.kind for loss in record.losses).items():
                self._losses.labels(face, str(kind)).inc(count)
        if len(tally.seconds) >= _MOST_PENDING:
            self.flush()
        elif self._is_shared and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self.flush)

    def flush(self) -> None:
        """Add the pending counts to the metrics."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        tallies, self._tallies = self._tallies, {}
        for (face, way, model, status), tally in tallies.items():
            self._requests.labels(face, way, model, str(status)).inc(len(tally.seconds))
            for metric, times in ((self._seconds, tally.seconds), (self._firsts, tally.firsts)):
                if times:
                    observe = metric.labels(face, way).observe
                    for seconds in times:
                        observe(seconds)
            for kind, count in (
                ("total_input", tally.input),
                ("total_output", tally.output),
                ("cache_read", tally.cache_read),
            ):
                if count:
                    self._tokens.labels(model, kind).inc(count)
            if tally.cents:
                self._cents.labels(model).inc(tally.cents)

    def _name_model(self, record: CallRecord) -> str:
        """Return the label of a request's model: its address, if it has ever answered."""
        address = record.address
        if not address or address in self._models:
            return address
        if record.status >= 400:
            return _UNKNOWN
        if len(self._models) >= _MOST_MODELS:
            return "other"
        self._models.add(address)
        return address

    def write(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        self.flush()
        self._busy.set(self._service.busy_count)
        self._waiting.set(self._service.waiting_count)
        registry = self._registry
        if os.environ.get(FOLDER_VARIABLE):
            from prometheus_client import multiprocess

            registry = self._prometheus.CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        text: bytes = self._prometheus.generate_latest(registry)
        return text
