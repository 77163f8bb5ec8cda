"""The page of a run: all words are in it, and none of them acts."""

from __future__ import annotations

import asyncio
import html
import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.flows.flow_tasks import compose_task, write_answers
from vibe_llms.conversations import MemoryStore
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.events.flow import FlowEndedEvent, FlowStartedEvent
from vibe_llms.exceptions import StoreError, UnknownConversationError
from vibe_llms.flows import AdapterConfig, run_task
from vibe_llms.flows.live_pages import LivePage
from vibe_llms.flows.pages import compose_table, embed_json
from vibe_llms.flows.run_pages import read_run_page

ATTACK = "</script><script>alert(1)</script><!-- <script> \u2028\u2029 {{topic}} &amp; \"'"

DIAGRAM = """
    START --> P0[Ask] --> C{ok?}
    C -->|good| END
    C -->|bad| P1[Mend]
    P1 --> P0
"""


def make(store: MemoryStore, said: str = "this is good", **parts: Any) -> str:
    """Runs a task whose model says what it is asked; returns the run's page."""
    task = compose_task(DIAGRAM, "{{said}}", "mend", **parts)
    result = run_task(task, variables={"said": said}, store=store)
    assert result.run_id, result.errors
    return read_run_page(store, result.run_id)


def read_data(page: str) -> dict[str, Any]:
    """What the page's script is given."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_a_page_says_what_happened_at_each_node() -> None:
    """Prompts and answers, states, choices with their reasons, and what was never reached."""
    page = make(
        MemoryStore(),
        conditions=[
            {"description": "is good", "evaluation_type": "CONTAINS", "expected_value": "good"}
        ],
    )
    text = html.unescape(re.sub("<[^>]*>", "", page))

    data = read_data(page)
    assert data["is_live"] is False
    assert list(data["nodes"]) == ["START", "P0", "C", "END", "P1"]
    assert 'P0@{ label: "Ask ✓' in data["diagram"].replace("<br/>", " ")
    assert "✓ goal met" in text
    assert text.count("this is good") >= 3
    assert re.search(r"Chosen: good \(\d+% sure\)\. 'good' is in", text)
    assert "✓ met is good CONTAINS" in text
    assert 'aria-label="Mend: never reached"' in page
    assert 'http-equiv="refresh"' not in page


def test_nothing_that_is_said_can_leave_its_place() -> None:
    """Neither in an answer nor in the diagram; and no script runs but the two of ours."""
    label = ATTACK.replace('"', "'")
    task = compose_task(f'START --> P0["{label}"] --> END', "{{said}}")
    task["goal"]["description"] = ATTACK
    store = MemoryStore()
    result = run_task(task, variables={"said": ATTACK}, store=store)
    page = read_run_page(store, result.run_id)

    assert "<script>alert" not in page
    assert len(re.findall("<script", page)) == 3
    assert len(re.findall("</script", page)) == 3
    assert "<!-- " not in page.replace("<!DOCTYPE", "")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert html.unescape(policy[1]).startswith("default-src 'none'; img-src data:;")
    assert "unsafe-eval" not in policy[1]
    assert html.unescape(policy[1]).count("'sha256-") == 2


@pytest.mark.parametrize("text", ["</script>", "<!--", "\u2028", "]]>", "&lt;"])
def test_data_in_a_page_are_data(text: str) -> None:
    """Nothing in them is HTML, and they read as they were."""
    written = embed_json({"a": text})
    assert json.loads(written) == {"a": text}
    assert re.fullmatch(r"[\x20-\x25\x27-\x3b\x3d\x3f-\x7e]+", written)


def test_columns_without_anything_are_left_out() -> None:
    """As costs are where no model has a price."""
    table = compose_table("x", "X", {"a": False, "b": True}, [("", ("1", "")), ("", ("2", ""))])
    assert ">a</th>" in table
    assert ">b</th>" not in table


def test_a_page_names_the_model_that_was_asked() -> None:
    """Which may be another than the task's."""
    store = MemoryStore()
    task = compose_task("START --> P0 --> END", "x")
    run = run_task(task, AdapterConfig(model="scripted:weather"), store=store)

    page = read_run_page(store, run.run_id)

    assert "scripted:weather" in page
    assert "scripted:echo" not in page


def test_a_run_that_has_failed_says_why() -> None:
    """At the node, which is shown first, and for the whole."""
    page = make(MemoryStore(), "neither")

    assert "Why it stopped" in page
    assert read_data(page)["first"] == read_data(page)["nodes"]["C"]


def test_a_judges_conversation_is_folded(tmp_path: Path) -> None:
    """What was asked about a response is beside it, and not in the way."""
    script = write_answers(tmp_path, Choose='{"category": "good"}', ask="well")
    page = make(
        MemoryStore(),
        "ask",
        script=script,
        categories={"good": {"description": "it is fine"}, "bad": {"description": "it is not"}},
    )
    assert "Asked about: category" in page


def test_what_is_no_run_has_no_page() -> None:
    """The error says so."""
    store = MemoryStore()
    with pytest.raises(UnknownConversationError):
        read_run_page(store, "none")
    store.create("talk", ConversationMetadata())
    with pytest.raises(StoreError, match="not the run of a flow"):
        read_run_page(store, "talk")


async def test_a_page_follows_its_run() -> None:
    """It is saved while the run goes on, to be loaded again, and for the last time at its end."""
    store, pages, is_saved = MemoryStore(), list[str](), asyncio.Event()
    loop = asyncio.get_running_loop()
    store.create("run", ConversationMetadata())
    log = store.open_log("run")
    log.claim()  # it is performed by a process

    def save(page: str) -> None:
        pages.append(page)
        loop.call_soon_threadsafe(is_saved.set)

    async with LivePage(store, save, pause_seconds=0) as live:
        task = compose_task(DIAGRAM, "{{said}}", "mend", variables={"said": "good"})
        started = FlowStartedEvent(run_id="run", task=task)
        log.append("run", started)
        live.feed(started)
        await is_saved.wait()
        log.append("run", FlowEndedEvent(run_id="run", reason="cancelled", node="P0"))

    assert read_data(pages[0])["is_live"] is True
    assert 'http-equiv="refresh" content="2"' in pages[0]
    assert read_data(pages[-1])["is_live"] is False
    assert len(pages) == 2


def test_a_run_whose_process_is_gone_is_no_longer_followed() -> None:
    """Its page says the same as all that shows runs."""
    store = MemoryStore()
    store.create("run", ConversationMetadata())
    task = compose_task(DIAGRAM, "a", "b")
    store.open_log("run").append("run", FlowStartedEvent(run_id="run", task=task))

    page = read_run_page(store, "run")

    assert read_data(page)["is_live"] is False
    assert "broken off" in page


async def test_a_page_is_saved_when_it_has_changed() -> None:
    """And not because something has happened that it does not show."""
    store, pages = MemoryStore(), list[str]()
    store.create("run", ConversationMetadata())
    started = FlowStartedEvent(run_id="run", task=compose_task(DIAGRAM, "a", "b"))
    store.open_log("run").append("run", started)

    async with LivePage(store, pages.append, pause_seconds=0) as live:
        live.feed(started)
        while not pages:  # noqa: ASYNC110
            await asyncio.sleep(0.001)

    assert len(pages) == 1


async def test_a_run_that_never_began_has_no_page() -> None:
    """Nothing is saved."""
    pages: list[str] = []
    async with LivePage(MemoryStore(), pages.append):
        pass
    assert pages == []
