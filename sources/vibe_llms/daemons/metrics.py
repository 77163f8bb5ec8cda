"""Prometheus metrics of a daemon (https://prometheus.io/docs/instrumenting/).

Requests, times, tokens, money, losses and errors; never contents. Several worker processes share
their counts through files in the folder named by ``PROMETHEUS_MULTIPROC_DIR``.
"""

from __future__ import annotations

import asyncio
import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Sized
from functools import cached_property, partial
from typing import Any, Final

from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.service import Service
from vibe_llms.foundation.optional_packages import find_package, needing
from vibe_llms.foundation.secrets import redact_name

FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS: Final = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_LATE_SECONDS: Final = (0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_MAX_MODELS: Final = 500
"""Most values of the label ``model``; further models are counted as ``other``."""

_MODEL_CHARACTERS: Final = 200
"""Longest value of this label."""

_UNKNOWN: Final = "unknown"
"""Label of models that have not answered yet, whose names clients could invent."""

_MAX_PENDING: Final = 1_000
_FLUSH_SECONDS: Final = 0.5
"""Requests of one kind, and seconds, after which pending counts are added to the metrics."""


class _Tally:
    """Pending counts of requests with equal labels.

    The library takes a lock for each count, which would be a tenth of the time of a small request.
    """

    __slots__ = ("cache_read", "cents", "first_bytes", "input", "output", "seconds")

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.first_bytes: list[float] = []
        self.input = self.output = self.cache_read = 0
        self.cents = 0.0


class _Instruments:
    """The metrics, in the library prometheus-client.

    Created when pending counts are first added: importing the library takes a sixth of the time of
    a daemon's start.

    Args:
        gauges: Further gauges of the service, by name.
    """

    def __init__(self, gauges: Mapping[str, tuple[str, Callable[[], float]]]) -> None:
        import prometheus_client as prometheus

        registry = self.registry = prometheus.CollectorRegistry()
        counter = partial(prometheus.Counter, registry=registry)
        histogram = partial(prometheus.Histogram, registry=registry)
        self.requests = counter("vibe_requests", "Requests.", ["face", "way", "model", "status"])
        self.errors = counter("vibe_errors", "Errors.", ["error"])
        self.broken = counter(
            "vibe_broken_answers",
            "Answers that started and were interrupted.",
            ["face", "way", "model", "error"],
        )
        self.tokens = counter("vibe_tokens", "Tokens.", ["model", "kind"])
        self.cents = counter("vibe_cost_cents", "US cents.", ["model"])
        self.losses = counter("vibe_losses", "Losses.", ["face", "kind"])
        self.seconds = histogram(
            "vibe_request_seconds",
            "Seconds until the end of the answer.",
            ["face", "way"],
            buckets=_SECONDS,
        )
        self.first_bytes = histogram(
            "vibe_first_byte_seconds",
            "Seconds until the first byte of the answer.",
            ["face", "way"],
            buckets=_SECONDS,
        )
        self.lateness = histogram(
            "vibe_loop_late_seconds",
            "Delay of the event loop, measured four times a second.",
            buckets=_LATE_SECONDS,
        )
        gauge = partial(prometheus.Gauge, multiprocess_mode="livesum", registry=registry)
        self.busy = gauge("vibe_requests_busy", "Being answered.")
        self.waiting = gauge("vibe_requests_waiting", "Requests waiting in queues.")
        self.further = [
            (gauge(name, description), read) for name, (description, read) in gauges.items()
        ]


def _observe_all(histogram: Any, values: Sequence[float]) -> None:
    """Add many values to a histogram; the library takes two locks for each that is observed."""
    histogram._sum.inc(sum(values))
    ordered, earlier = sorted(values), 0
    for bound, bucket in zip(histogram._upper_bounds, histogram._buckets, strict=True):
        count = bisect_right(ordered, bound)
        if count > earlier:
            bucket.inc(count - earlier)
        earlier = count


class Metrics:
    """Listener that counts requests.

    Counts are pending until the metrics are read; where worker processes share their counts, for
    at most half a second.

    Args:
        service: Its concurrent requests are reported as well.

    Raises:
        DependencyError: prometheus-client is not installed.
    """

    def __init__(self, service: Service) -> None:
        with needing("serve", "prometheus-client", "Metrics"):
            find_package("prometheus_client")
        self._service = service
        self._is_shared = bool(os.environ.get(FOLDER_VARIABLE))
        self._tallies: dict[tuple[str, str, str, int], _Tally] = {}
        self._lateness: list[float] = []
        self._timer: asyncio.TimerHandle | None = None
        self._models: set[str] = set()
        service.watch.listeners.append(self._note_lateness)
        service.endings.append(self.flush)

    @cached_property
    def _instruments(self) -> _Instruments:
        return _Instruments(self._service.gauges)

    def _note_lateness(self, seconds: float) -> None:
        self._lateness.append(seconds)
        self._plan_flush(self._lateness)

    def _plan_flush(self, pending: Sized) -> None:
        if len(pending) >= _MAX_PENDING:
            self.flush()
        elif self._is_shared and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self.flush)

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
            tally.first_bytes.append(record.first_seconds)
        input_count, output_count, cached = record.tokens or record.count_tokens()
        tally.input += input_count
        tally.output += output_count
        tally.cache_read += cached
        if record.cents:
            tally.cents += float(record.cents)
        if record.error:
            self._instruments.errors.labels(record.error).inc()
            if record.status < 400:
                self._instruments.broken.labels(face, way, model, record.error).inc()
        if record.losses:
            for kind, count in Counter(loss.kind for loss in record.losses).items():
                self._instruments.losses.labels(face, str(kind)).inc(count)
        if self._is_shared or len(tally.seconds) >= _MAX_PENDING:
            self._plan_flush(tally.seconds)

    def flush(self) -> None:
        """Add the pending counts to the metrics."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not (self._tallies or self._lateness):
            return
        instruments = self._instruments
        late, self._lateness = self._lateness, []
        _observe_all(instruments.lateness, late)
        tallies, self._tallies = self._tallies, {}
        for (face, way, model, status), tally in tallies.items():
            instruments.requests.labels(face, way, model, str(status)).inc(len(tally.seconds))
            for metric, times in (
                (instruments.seconds, tally.seconds),
                (instruments.first_bytes, tally.first_bytes),
            ):
                if times:
                    _observe_all(metric.labels(face, way), times)
            for kind, count in (
                ("total_input", tally.input),
                ("total_output", tally.output),
                ("cache_read", tally.cache_read),
            ):
                if count:
                    instruments.tokens.labels(model, kind).inc(count)
            if tally.cents:
                instruments.cents.labels(model).inc(tally.cents)

    def _name_model(self, record: CallRecord) -> str:
        """Return the label of a request's model: its address, if it has answered before."""
        address = redact_name(record.address, _MODEL_CHARACTERS)
        if not address or address in self._models:
            return address
        if record.status >= 400:
            return _UNKNOWN
        if len(self._models) >= _MAX_MODELS:
            return "other"
        self._models.add(address)
        return address

    def write(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        self.flush()
        import prometheus_client as prometheus

        instruments = self._instruments
        instruments.busy.set(self._service.busy_count)
        instruments.waiting.set(self._service.waiting_count)
        for gauge, read in instruments.further:
            gauge.set(read())
        registry = instruments.registry
        if os.environ.get(FOLDER_VARIABLE):
            from prometheus_client import multiprocess

            registry = prometheus.CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        text: bytes = prometheus.generate_latest(registry)
        return text
