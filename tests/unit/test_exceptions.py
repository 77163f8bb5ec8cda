"""The tree of errors."""

from __future__ import annotations

import builtins
import copy
import enum
import inspect
import pickle
import re
from collections.abc import Iterator
from typing import Any

import pytest

from vibe_llms import exceptions
from vibe_llms.exceptions import (
    RETRYABLE_FAULTS,
    AmbiguousIdentityError,
    CodecError,
    ConfigurationError,
    ControlError,
    ConverseError,
    CorruptionError,
    Finding,
    LimitError,
    ProviderError,
    ProviderFault,
    Stage,
    StaleConversationError,
    TranslationLossError,
    UnknownConversationError,
    UnknownNameError,
)
from vibe_llms.foundation.error_facts import access_facts


def walk_classes(root: type[ConverseError] = ConverseError) -> Iterator[type[ConverseError]]:
    """Yields the errors of the module, parents first; the tests of others may add their own."""
    yield root
    for child in root.__subclasses__():
        if child.__module__ == exceptions.__name__:
            yield from walk_classes(child)


CLASSES = list(walk_classes())

SAMPLES: dict[str, Any] = {
    "str": "word",
    "Stage": Stage.FRAME,
    "ProviderFault": ProviderFault.QUOTA,
    "tuple[str, ...]": ("one", "two"),
    "tuple[Finding, ...]": (Finding(place="config.toml", line=3, message="no such key"),),
    "int": 7,
    "int | None": 8,
    "float": 1.5,
    "float | None": 2.5,
    "bool | None": False,
    "str | None": "code",
}
"""A value other than the default for every type that a fact has."""


def produce_error(cls: type[ConverseError]) -> ConverseError:
    """Produces an error all of whose facts are given."""
    types = {
        name: annotation
        for base in reversed(cls.__mro__)
        for name, annotation in inspect.get_annotations(base).items()
    }
    return cls(**{name: SAMPLES[types[name]] for name in cls.FACTS})


def read_drawn_tree() -> dict[str, tuple[str | None, str | None]]:
    """Returns, for each class in the drawing, its parent there and the builtin beside it."""
    drawn: dict[str, tuple[str | None, str | None]] = {}
    parents: list[str] = []
    for line in (exceptions.__doc__ or "").splitlines():
        if match := re.match(r"    ((?:[│├└─ ]{4})*)(\w+Error)(?: \((\w+)\))?", line):
            depth = len(match[1]) // 4
            parents[depth:] = [match[2]]
            drawn[match[2]] = (parents[depth - 1] if depth else None, match[3])
    return drawn


def test_the_drawn_tree_is_the_tree() -> None:
    """The drawing at the top of the module shows every class, its parent and its builtin."""
    actual: dict[str, tuple[str | None, str | None]] = {}
    for cls in CLASSES:
        parent, *others = cls.__bases__
        actual[cls.__name__] = (
            None if cls is ConverseError else parent.__name__,
            others[0].__name__ if others else None,
        )

    assert read_drawn_tree() == actual


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_an_error_can_be_caught_as_the_builtin_beside_it(cls: type[ConverseError]) -> None:
    """A programmer who knows only Python's own errors catches ours under their names."""
    builtin = getattr(builtins, read_drawn_tree()[cls.__name__][1] or "Exception")

    with pytest.raises(builtin) as caught:
        raise produce_error(cls)

    assert type(caught.value) is cls


def test_every_class_has_a_word_of_its_own() -> None:
    """The words that stand for the classes in JSON are distinct and have no odd letters."""
    words = [cls.WORD for cls in CLASSES]

    assert len(set(words)) == len(words)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", word) for word in words)


@pytest.mark.slow
@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize(
    "duplicate",
    [
        copy.copy,
        copy.deepcopy,
        *(
            lambda error, p=protocol: pickle.loads(pickle.dumps(error, p))
            for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)
        ),
    ],
)
def test_an_error_survives_pickling_and_copying(cls: type[ConverseError], duplicate: Any) -> None:
    """An error that crosses to another process is the same class with the same facts and text."""
    error = produce_error(cls)

    twin = duplicate(error)

    assert type(twin) is cls
    assert twin is not error
    assert access_facts(twin) == access_facts(error)
    assert str(twin) == str(error)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_an_error_needs_no_facts(cls: type[ConverseError]) -> None:
    """Every fact has a default, and even an error without any prints something."""
    assert str(cls())
    assert repr(cls()).startswith(f"{cls.__name__}(")


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_the_remedy_ends_the_text(cls: type[ConverseError]) -> None:
    """What the user can do next comes after what happened."""
    error = cls(detail="It rains.", remedy="Take an umbrella.")

    assert str(error).endswith(" Take an umbrella.")


def test_an_error_equals_only_itself() -> None:
    """Two errors with the same facts are two events; both can be put into a set."""
    first, second = LimitError(limit="steps"), LimitError(limit="steps")

    assert first != second
    assert len({first, second, first}) == 2


def test_a_misspelt_fact_is_refused() -> None:
    """The constructor takes the facts of its class, by name, and nothing else."""
    with pytest.raises(TypeError, match="remady"):
        ConverseError(remady="…")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        ConverseError("positional")  # type: ignore[misc]


def test_the_cause_is_kept() -> None:
    """The original error stays reachable through ``__cause__``."""
    original = KeyError("type")

    with pytest.raises(CodecError) as caught:
        raise CodecError(detail="There is no type.") from original

    assert caught.value.__cause__ is original


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConverseError(), "ConverseError"),
        (
            ConfigurationError(
                findings=(
                    Finding(place="config.toml", line=2, message="Unknown key 'modle'."),
                    Finding(place="VIBE_LLMS_MODEL", message="It is empty."),
                )
            ),
            "config.toml:2: Unknown key 'modle'.\nVIBE_LLMS_MODEL: It is empty.",
        ),
        (
            UnknownNameError(kind="provider", name="lokal", known=("local", "scripted")),
            "Unknown provider 'lokal'; did you mean 'local'?",
        ),
        (UnknownNameError(name="x"), "Unknown name 'x'."),
        (ControlError(detail="Too warm.", control="temperature"), "Too warm."),
        (TranslationLossError(losses=("a", "b")), "The translation would lose: a; b."),
        (
            CodecError(detail="Unknown word 'txt'.", path="$.content[1].type", known=("text",)),
            "Unknown word 'txt'. @ $.content[1].type (known: text)",
        ),
        (
            LimitError(limit="max_events", value=1000),
            "The limit max_events = 1000 was reached.",
        ),
        (
            ProviderError(provider="local", fault=ProviderFault.OVERLOADED, detail="Busy."),
            "local failed (overloaded): Busy.",
        ),
        (ProviderError(detail="Busy."), "The provider failed (unknown): Busy."),
        (UnknownConversationError(identity="3f"), "Unknown conversation '3f'."),
        (
            AmbiguousIdentityError(identity="3", candidates=("3a", "3b")),
            "Ambiguous id '3': 3a, 3b.",
        ),
        (
            StaleConversationError(identity="3a"),
            "Conversation 3a has grown: another writer changed it.",
        ),
        (CorruptionError(path="m.jsonl", line=4, detail="Torn."), "m.jsonl:4: Torn."),
        (CorruptionError(path="m.jsonl", detail="Torn."), "m.jsonl: Torn."),
        (CorruptionError(detail="Torn."), "Torn."),
    ],
)
def test_the_text_is_composed_from_the_facts(error: ConverseError, text: str) -> None:
    """One line says what happened, to which thing."""
    assert str(error) == text


@pytest.mark.parametrize("fault", list(ProviderFault))
def test_only_passing_faults_are_worth_another_try(fault: ProviderFault) -> None:
    """A fault that lies in the request or the account does not go away by repeating."""
    assert ProviderError(fault=fault).is_retryable == (fault in RETRYABLE_FAULTS)
    assert ProviderFault.INVALID_REQUEST not in RETRYABLE_FAULTS


def test_words_of_stages_and_faults_are_plain() -> None:
    """Both travel as words, so each is lower-case and equals its text."""
    for word in [*Stage, *ProviderFault]:
        assert isinstance(word, enum.StrEnum)
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", word.value)
