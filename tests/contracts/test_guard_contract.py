"""The shipped guards keep the contract of guards, and a guard that breaks it is told."""

from __future__ import annotations

from typing import Any

import pytest

from support.guards.guarding import WordSpy
from vibe_llms.guards.shipped.judgment import JudgeGuard, JudgeSettings
from vibe_llms.guards.shipped.secrets import SecretGuard, SecretSettings
from vibe_llms.guards.shipped.words import WordGuard, WordSettings
from vibe_llms.messages.contents import TextualContent
from vibe_llms.models.attributes import Capability
from vibe_llms.plugins.specification.guards import Guard, Inspection, Redaction
from vibe_llms.testing.contracts import GuardContract
from vibe_llms.testing.contracts.promises import BrokenPromise


class TestSecrets(GuardContract):
    """Secrets that are marked."""

    caught = "My card is 4111 1111 1111 1111."
    secret = "4111 1111"

    def produce_guard(self) -> Guard:
        return SecretGuard()


class TestPrivateKeys(TestSecrets):
    """A secret of many lines."""

    caught = (
        "Here it is:\n-----BEGIN PRIVATE KEY-----\n"
        + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n" * 20
        + "-----END PRIVATE KEY-----"
    )
    secret = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"


class TestRefusedSecrets(TestSecrets):
    """Secrets that are refused."""

    caught = "My key is sk-ant-api03-abcdefghij1234567890, and so on."
    secret = "abcdefghij"

    def produce_guard(self) -> Guard:
        return SecretGuard(SecretSettings(action="refuse"))


class TestWords(GuardContract):
    """A list with a phrase."""

    caught = "It is the Blue Bird."
    secret = "Blue"

    def produce_guard(self) -> Guard:
        return WordGuard(WordSettings(words=("blue bird",)))


class _Model:
    """Answers with yes if a text has a walnut."""

    class descriptor:  # noqa: N801  # an attribute of models
        class attributes:  # noqa: N801
            @staticmethod
            def access_capability(name: str) -> Capability:
                return Capability.YES

    async def converse(self, request: Any, *, stream: bool) -> Any:
        has_nut = "walnut" in request.canisters[-1].text
        return TextualContent('{"answer": "%s"}' % ("yes" if has_nut else "no"))


class TestJudge(GuardContract):
    """A judge that holds back the whole answer."""

    caught = "It is a walnut."
    secret = "walnut"

    def produce_guard(self) -> Guard:
        async def access(genus: str, address: str) -> Any:
            return _Model()

        return JudgeGuard(JudgeSettings(question="A nut?"), access)


class _Short(WordSpy):
    """Its window is shorter than what it finds."""

    def __init__(self) -> None:
        super().__init__("walnut", 2)


class _Lazy(WordSpy):
    """Looks at the first text only."""

    async def examine(self, inspection: Inspection) -> Any:
        first = Inspection(part=inspection.part, texts=inspection.texts[:1])
        return await super().examine(first)


class _Talkative(WordSpy):
    """Repeats what it finds."""

    async def examine(self, inspection: Inspection) -> Any:
        found: Any = await super().examine(inspection)
        return [Redaction(each.start, each.end, "[x]", "a walnut", each.text) for each in found]


@pytest.mark.parametrize(
    ("kind", "promise", "words"),
    [
        (_Short, "a_stream_has_the_same_marks_however_it_is_split", "Enlarge the window"),
        (_Lazy, "a_secret_is_found_in_every_part", "Look at all texts"),
        (_Talkative, "marks_and_reasons_do_not_have_the_secret", "not the text itself"),
    ],
)
def test_a_broken_promise_is_explained(kind: Any, promise: str, words: str) -> None:
    class Contract(GuardContract):
        caught = "It is a walnut."
        secret = "walnut"

        def produce_guard(self) -> Any:
            return kind()

    with pytest.raises(BrokenPromise, match=words):
        getattr(Contract(), f"test_{promise}")()
