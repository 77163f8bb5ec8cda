"""What workers are told, and what orders say, of queues."""

from __future__ import annotations

import pytest

from vibe_llms.agents.queues import Queue, read_queues
from vibe_llms.agents.run_specs import RunSpec, read_run_spec
from vibe_llms.agents.runners import check_shared, check_url
from vibe_llms.exceptions import ConfigurationError


def test_queues_read() -> None:
    assert read_queues("runs") == (Queue("runs", 16, None),)
    assert read_queues("runs=2/8, nightly=1,") == (Queue("runs", 2, 8), Queue("nightly", 1))


@pytest.mark.parametrize("text", ["", "Runs", "runs=0", "runs=8/4", "a,a=2", "runs=x", "runs/3"])
def test_what_is_no_queue_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_queues(text)
    assert [each.place for each in caught.value.findings] == ["queues"]


def test_an_order_says_its_queue() -> None:
    spec = RunSpec(model="m", queue="nightly", priority=-3)
    assert read_run_spec(spec.export()) == spec
    assert RunSpec(model="m").export() == {"model": "m"}


@pytest.mark.parametrize("said", [{"queue": "No Queue"}, {"priority": 1_001}, {"priority": True}])
def test_an_order_for_no_queue_is_refused(said: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="It must be"):
        read_run_spec(said)


@pytest.mark.parametrize("url", ["sqlite://", "mysql://u:secret@h/d", "runs.db", "sqlite:///"])
def test_what_names_no_runner_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a database of a runner") as caught:
        check_url(url)
    assert "secret" not in str(caught.value)


def test_workers_share_a_database() -> None:
    check_url("local:")
    with pytest.raises(ConfigurationError, match="workers share a database"):
        check_shared("local:")
