"""Prometheus metrics of a daemon (https://prometheus.io/docs/instrumenting/).

Requests, times, tokens, money, losses and errors; never contents. Several worker processes share
their counts through files in the folder named by ``PROMETHEUS_MULTIPROC_DIR``.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import partial
from typing import Any, Final

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

_TOKENS: Final = ("total_input_tokens", "total_output_tokens", "cache_read_tokens")


class Metrics:
    """Listener that counts requests.

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
        self._children: dict[tuple[Any, ...], Any] = {}
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
        gauge = partial(prometheus.Gauge, multiprocess_mode="livesum", registry=registry)
        self._busy = gauge("vibe_requests_busy", "Being answered.")
        self._waiting = gauge("vibe_requests_waiting", "Requests waiting in queues.")

    def __call__(self, record: CallRecord) -> None:
        """Count a completed request; see :data:`.records.Listener`."""
        if not record.face:
            return
        model = self._name_model(record)
        way = (record.face, record.way)
        self._child(self._requests, *way, model, str(record.status)).inc()
        self._child(self._seconds, *way).observe(record.seconds)
        if record.first_seconds is not None:
            self._child(self._firsts, *way).observe(record.first_seconds)
        if record.error:
            self._child(self._errors, record.error).inc()
            if record.status < 400:
                self._child(self._broken, *way, model, record.error).inc()
        if record.usage is not None:
            for name in _TOKENS:
                if count := getattr(record.usage, name):
                    self._child(self._tokens, model, name.removesuffix("_tokens")).inc(count)
        if record.cents:
            self._child(self._cents, model).inc(float(record.cents))
        for kind, count in Counter(loss.kind for loss in record.losses).items():
            self._child(self._losses, record.face, str(kind)).inc(count)

    def _child(self, metric: Any, *labels: str) -> Any:
        """Return the cached child for some labels; the library is slow to find it."""
        key = (metric, *labels)
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = metric.labels(*labels)
        return child

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
        self._busy.set(self._service.busy_count)
        self._waiting.set(self._service.waiting_count)
        registry = self._registry
        if os.environ.get(FOLDER_VARIABLE):
            from prometheus_client import multiprocess

            registry = self._prometheus.CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        text: bytes = self._prometheus.generate_latest(registry)
        return text
