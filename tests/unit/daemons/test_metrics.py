"""What is counted, and by which names."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from support.gateways.gateways import wait_until
from vibe_llms.daemons import metrics as metrics_module
from vibe_llms.daemons.metrics import FOLDER_VARIABLE, Metrics
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.service import Service
from vibe_llms.foundation.secrets import HIDDEN


def finish(metrics: Metrics, address: str, status: int) -> None:
    """Tells of a request that is over."""
    record = CallRecord(request_id="r", method="POST", path="/", started=0.0)
    record.face, record.address, record.status = "f", address, status
    metrics(record)


def count(metrics: Metrics, model: str, status: int) -> float:
    """Returns how many requests were counted for a model and a status."""
    for line in metrics.write().decode().splitlines():
        if line.startswith("vibe_requests_total{") and f'model="{model}",status="{status}"' in line:
            return float(line.rpartition(" ")[2])
    return 0.0


def test_names_that_nothing_answers_to_take_no_place() -> None:
    """However many a client makes up, the models that answer are told apart."""
    metrics = Metrics(Service([]))
    for index in range(501):
        finish(metrics, f"openai:junk-{index}", 404)
    finish(metrics, "anthropic:m", 200)
    finish(metrics, "anthropic:m", 503)
    finish(metrics, "", 404)

    assert "junk" not in metrics.write().decode()
    assert count(metrics, "unknown", 404) == 501
    assert count(metrics, "anthropic:m", 200) == count(metrics, "anthropic:m", 503) == 1
    assert count(metrics, "", 404) == 1


def test_names_are_bounded_even_where_all_are_answered() -> None:
    """A vendor may take any name."""
    metrics = Metrics(Service([]))
    for index in range(510):
        finish(metrics, f"llama:{index}", 200)

    assert count(metrics, "llama:499", 200) == 1
    assert count(metrics, "other", 200) == 10


def test_a_label_has_no_key_and_a_bounded_length() -> None:
    """A client may type its key as a model, and a vendor may take any name."""
    metrics = Metrics(Service([]))
    finish(metrics, "llama:sk-" + "k" * 40, 200)
    finish(metrics, "llama:" + "y" * 100_000, 200)

    text = metrics.write().decode()
    assert "kkk" not in text
    assert count(metrics, f"llama:{HIDDEN}", 200) == 1
    assert len(text) < 20_000


@pytest.mark.slow
async def test_it_is_told_how_long_the_event_loop_stood_still() -> None:
    """From the start of the service to its end."""
    service = Service([])
    metrics = Metrics(service)
    heard: list[float] = []
    service.watch.listeners.append(heard.append)
    await service.start()
    time.sleep(0.6)  # noqa: ASYNC251  # everybody waits: that is what is measured
    await wait_until(lambda: max(heard, default=0.0) > 0.3)
    await service.stop()

    text = metrics.write().decode()
    (told,) = (line for line in text.splitlines() if line.startswith("vibe_loop_late_seconds_sum"))
    assert float(told.rpartition(" ")[2]) >= 0.3
    before = len(heard)
    await asyncio.sleep(0.3)
    assert len(heard) == before


async def test_shared_counts_are_written_while_nobody_reads_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another worker process reads them; what is pending at the end is written, too."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setattr(metrics_module, "_FLUSH_SECONDS", 0.01)
    service = Service([])
    metrics = Metrics(service)
    flushed: list[int] = []
    flush = metrics.flush
    monkeypatch.setattr(metrics, "flush", lambda: (flushed.append(1), flush()))
    finish(metrics, "anthropic:m", 200)
    await wait_until(lambda: bool(flushed))
    finish(metrics, "anthropic:m", 200)
    await service.stop()

    assert count_pending(metrics) == 0


def count_pending(metrics: Metrics) -> int:
    return sum(len(tally.seconds) for tally in metrics._tallies.values())
