"""What is kept of answers stays within its bounds, and is what was kept last."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.daemons.gateway.answer_cache import AnswerCache, AnswerRecorder, StoredAnswer
from vibe_llms.daemons.gateway.faces.responses import FACE
from vibe_llms.daemons.gateway.routing.settings import CacheSettings

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["keep", "find"]),
        st.sampled_from("abcde"),
        st.integers(0, 12),
        st.integers(0, 4),
    ),
    max_size=80,
)


@given(STEPS)
def test_it_is_a_bounded_table_of_what_was_used_last(
    steps: list[tuple[str, str, int, int]],
) -> None:
    cache = AnswerCache(CacheSettings(seconds=10, bytes=20, entries=3))
    known: dict[str, tuple[int, StoredAnswer]] = {}  # in the order in which they were used
    now = 0
    for what, key, size, after in steps:
        now += after
        if what == "keep":
            answer = StoredAnswer(200, {}, (b"x" * size,))
            cache.add(key, answer, now)
            known.pop(key, None)
            known[key] = now, answer
            while len(known) > 3 or sum(each.size_bytes for _, each in known.values()) > 20:
                del known[next(iter(known))]
        else:
            kept = known.pop(key, None)
            is_fresh = kept is not None and now - kept[0] < 10
            if kept is not None and is_fresh:
                known[key] = kept
            assert cache.find(key, now) is (kept[1] if kept and is_fresh else None)
        assert len(cache) == len(known)
        assert cache.size_bytes == sum(each.size_bytes for _, each in known.values())


def test_what_is_longer_than_all_may_be_takes_the_place_of_nothing() -> None:
    cache = AnswerCache(CacheSettings(seconds=10, bytes=20))
    small = StoredAnswer(200, {}, (b"x" * 10,))
    cache.add("a", small, 0)
    cache.add("b", StoredAnswer(200, {}, (b"x" * 21,)), 0)
    assert cache.find("a", 1) is small
    assert cache.find("b", 1) is None


@pytest.mark.parametrize(
    ("status", "body", "is_kept"),
    [
        (200, b'{"status": "completed"}', True),
        (200, b'{"status": "failed"}', False),
        (200, b'{"status":"in_progress"}', False),
        (500, b'{"status": "completed"}', False),
        (200, b"x" * 101, False),
    ],
)
def test_what_is_no_answer_is_not_kept(status: int, body: bytes, is_kept: bool) -> None:
    recording = AnswerRecorder(FACE, limit=100)
    recording.begin(status, {"content-type": "application/json", "x-request-id": "a"})
    recording.feed(body)
    kept = recording.finish(is_streamed=False)
    assert (kept is not None) == is_kept
    if kept is not None:
        assert kept.headers == {"content-type": "application/json"}


@pytest.mark.slow
def test_nobody_loads_it_without_a_file() -> None:
    code = (
        "import sys, vibe_llms.daemons.gateway.making\n"
        "lazy = ('routing.router', 'routing.fallback', 'gateway.caching', 'answer_cache')\n"
        "print([name for name in sys.modules if name.endswith(lazy)])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert printed.stdout.strip() == b"[]"
