"""A mistake costs one line, and an exit code that says which kind it was."""

from __future__ import annotations

import click
import pytest

from vibe_llms import exceptions
from vibe_llms.exceptions import ConfigurationError, Finding, UnknownConversationError
from vibe_llms.interfaces.cli.errors import MEANINGS, ExitCode, classify_error, compose_lines
from vibe_llms.messages.codec.errors import survey_error_classes


def test_every_exit_code_has_a_meaning_in_the_manual() -> None:
    """There is one table of exit codes, and it is complete."""
    assert set(MEANINGS) == set(ExitCode)


@pytest.mark.parametrize("cls", survey_error_classes().values(), ids=lambda cls: cls.__name__)
def test_no_error_of_ours_counts_as_a_defect(cls: type[exceptions.ConverseError]) -> None:
    """Each error that a caller can meet has an exit code of its kind."""
    assert classify_error(cls(detail="x")) not in (ExitCode.DEFECT, ExitCode.SUCCESS)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (click.UsageError("x"), ExitCode.USAGE),
        (ConfigurationError(detail="x"), ExitCode.CONFIGURATION),
        (UnknownConversationError(identity="x"), ExitCode.NOT_FOUND),
        (exceptions.UnknownNameError(name="x"), ExitCode.NOT_FOUND),
        (exceptions.ControlError(detail="x"), ExitCode.REQUEST),
        (exceptions.TranslationLossError(), ExitCode.REQUEST),
        (exceptions.ProviderError(detail="x"), ExitCode.PROVIDER),
        (exceptions.TransportError(detail="x"), ExitCode.PROVIDER),
        (exceptions.CorruptionError(detail="x"), ExitCode.STORE),
        (exceptions.LimitError(limit="x"), ExitCode.LIMIT),
        (exceptions.TrustError(detail="x"), ExitCode.CONSENT),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED),
        (ZeroDivisionError(), ExitCode.DEFECT),
    ],
)
def test_the_exit_code_says_which_kind(error: BaseException, code: ExitCode) -> None:
    """The most specific class decides."""
    assert classify_error(error) is code


def test_an_error_is_one_line_with_its_remedy() -> None:
    """Line breaks in what happened do not tear the line apart."""
    error = exceptions.StoreError(detail="It is\nbroken.", remedy="Mend it.")

    assert compose_lines(error) == ["It is broken. Mend it."]


def test_each_finding_in_a_configuration_has_a_line() -> None:
    """Mistakes in a configuration are told all at once, with file and line."""
    findings = tuple(Finding(place="a.toml", line=n, message="wrong") for n in (1, 7))

    lines = compose_lines(ConfigurationError(findings=findings))

    assert lines == ["a.toml:1: wrong", "a.toml:7: wrong"]


def test_an_error_cannot_command_the_terminal() -> None:
    """What a vendor says in an error is shown, not obeyed."""
    (line,) = compose_lines(exceptions.ProviderError(detail="\x1b[2Jgone"))

    assert "\x1b" not in line
    assert "gone" in line


@pytest.mark.parametrize("said", ["It is wrong", "It is wrong.", "Did you mean it?", "(Or not)"])
def test_a_sentence_ends_once_before_the_hint(said: str) -> None:
    """Click ends some of its sentences and others not."""
    error = click.UsageError(said, ctx=click.Context(click.Command("vibe")))

    [line] = compose_lines(error)

    sentence, _, _ = line.partition(" Try: ")
    assert sentence in (said, f"{said}.")
    assert sentence.endswith((".", "?", ")"))
