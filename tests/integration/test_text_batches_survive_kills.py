"""A batch of texts that is killed loses no vector, and sends again only what was under way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from array import array
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.screens.command_line import VIBE, produce_environment
from vibe_llms.testing.simulator import SynchronousSimulator
from vibe_llms.testing.simulator.calls import draw

pytestmark = pytest.mark.slow

COUNT, CONCURRENCY, SHARED, ROUNDS = 4_000, 2, 128, 4
"""Mistral takes 128 texts in a request."""
TEXTS = [f"Sea number {number}." for number in range(COUNT)]


@pytest.fixture
def vendor() -> Iterator[SynchronousSimulator]:
    """A vendor that takes its time, so that a kill finds requests under way."""
    with SynchronousSimulator("slow=60") as simulator:
        yield simulator


def count_lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_kill_9_sends_no_text_again_that_has_its_line(
    vendor: SynchronousSimulator, tmp_path: Path
) -> None:
    output = tmp_path / "vectors.jsonl"
    (tmp_path / "texts.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in TEXTS))
    (tmp_path / "vibe.toml").write_text(
        f'[providers.mistral]\nbase_url = "{vendor.url}/v1"\napi_key = "sk"\n'
    )
    command = [*VIBE, "batch", "texts.jsonl", "-o", "vectors.jsonl", "--genus", "embedder",
               "-m", "mistral:mistral-embed", "--concurrency", str(CONCURRENCY)]  # fmt: skip
    environment = produce_environment(tmp_path, VIBE_LLMS_CONFIG=str(tmp_path / "vibe.toml"))
    sent_before: list[int] = []
    kept: list[set[str]] = []
    for number in range(1, ROUNDS + 1):
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + 120
        while count_lines(output) < number * COUNT // (ROUNDS + 1):
            assert process.poll() is None
            assert time.monotonic() < deadline, "the batch did not get so far"
            time.sleep(0.001)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)
        lines = output.read_bytes().splitlines(keepends=True)
        whole = [json.loads(line) for line in lines if line.endswith(b"\n")]
        assert not [line for line in whole if line.get("error")]
        kept.append({TEXTS[line["index"]] for line in whole})
        sent_before.append(len(vendor.requests))
    subprocess.run(
        command, cwd=tmp_path, env=environment, check=True, timeout=300, capture_output=True
    )

    written = [json.loads(line) for line in output.read_text().splitlines()]
    assert sorted(line["index"] for line in written) == list(range(COUNT))
    for line in written[:: COUNT // 50]:
        expected = array("f", draw(TEXTS[line["index"]]))
        assert line["value"] == pytest.approx(list(expected), abs=1e-6)
    batches = [request.body["input"] for request in vendor.requests]
    assert max(map(len, batches)) <= SHARED
    assert len(kept[0]) < len(kept[-1]) < COUNT  # each kill was in the middle
    for start, texts in zip(sent_before, kept, strict=True):
        assert not texts & {text for batch in batches[start:] for text in batch}
    counts = Counter(text for batch in batches for text in batch)
    assert len(counts) == COUNT
    repeated = sum(count - 1 for count in counts.values())
    assert repeated <= ROUNDS * CONCURRENCY * SHARED
