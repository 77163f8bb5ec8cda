"""What is typed after an option is read as it was meant, or refused with a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import pytest

from vibe_llms.interfaces.cli import options
from vibe_llms.interfaces.cli.completing import SURVEYS
from vibe_llms.interfaces.cli.option_values import compose_address, parse_controls


def test_control_values_are_json_where_they_read_so() -> None:
    """Numbers, booleans and lists are what they look like; all else is text."""
    controls = parse_controls(("temperature=0.2", 'stop=["a"]', "style=warm", "empty=", "x=a=b"))

    assert controls == {
        "temperature": 0.2,
        "stop": ["a"],
        "style": "warm",
        "empty": "",
        "x": "a=b",
    }


@pytest.mark.parametrize("assignments", [("temperature",), ("=1",), ("a=1", "a=2")])
def test_an_assignment_that_makes_no_sense_is_refused(assignments: tuple[str, ...]) -> None:
    """No equals sign, no name, or the same name twice."""
    with pytest.raises(click.UsageError):
        parse_controls(assignments)


@pytest.mark.parametrize(
    ("model", "provider", "address"),
    [
        (None, None, None),
        ("scripted:echo", None, "scripted:echo"),
        (None, "scripted", "scripted"),
        ("echo", "scripted", "scripted:echo"),
        ("scripted:echo", "scripted", "scripted:echo"),
        ("./a.toml", "scripted", "scripted:./a.toml"),
    ],
)
def test_provider_and_model_make_one_address(
    model: str | None, provider: str | None, address: str | None
) -> None:
    """``--provider`` completes a model's bare name and agrees with a whole address."""
    assert compose_address(model, provider) == address


def test_two_providers_are_refused() -> None:
    """``--provider`` and ``--model`` may not contradict each other."""
    with pytest.raises(click.UsageError, match="different providers"):
        compose_address("local:smollm2", "scripted")


def test_every_completed_option_has_its_survey() -> None:
    """A misspelled kind of candidates would silently complete nothing."""
    kinds = {
        each.kind for each in vars(options).values() if isinstance(each, options._CompletedText)
    }

    assert kinds == set(SURVEYS)


@pytest.mark.parametrize("stream", ["--stream", "--no-stream"])
def test_a_control_that_the_model_lacks_is_left_out_where_one_is_lenient(
    vibe: Callable[..., Any], stream: str
) -> None:
    """It is an error else; one line on standard error tells what was left out."""
    asked = ("ask", "-m", "scripted:echo", "-c", "sparkle=3", stream, "hello")

    refused, lenient = vibe(*asked), vibe(*asked, "--lenient")

    assert (refused.code, refused.out) == (5, "")
    assert "'sparkle'" in refused.err
    assert (lenient.code, lenient.out) == (0, "hello\n")
    assert "sparkle" in lenient.err
