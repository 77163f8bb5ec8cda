"""Read-only views of canisters."""

from __future__ import annotations

import itertools
import operator
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, cast

from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    Usage,
    UserCanister,
)
from vibe_llms.messages.contents import (
    MEDIA_CLASSES,
    CacheHint,
    MediaContent,
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
)
from vibe_llms.messages.texts import BOUNDARY


def describe_contents(canister: AnyCanister) -> list[tuple[str, str]]:
    """Return what a canister says as pairs of kind and text; media by their names.

    The kinds are ``call``, ``text``, ``reasoning``, ``refusal`` and ``note``.
    """
    pieces: list[tuple[str, str]] = []
    if isinstance(canister, InvocationCanister):
        pieces.append(("call", f"{canister.name}({canister.arguments})"))
    for content in canister.content:
        match content:
            case TextualContent():
                pieces.append(("text", content.text))
            case ReasoningContent():
                pieces.append(("reasoning", content.text or "\n\n".join(content.summary)))
            case RefusalContent():
                pieces.append(("refusal", content.text))
            case NativeContent():
                pieces.append(("note", content.text or f"[{content.kind}]"))
            case CacheHint():
                pass
            case _:
                source = content.name or content.url or content.file_id or content.content_id
                pieces.append(("note", f"[{content.type} {source}, {content.mime_type}]"))
    return [(kind, text) for kind, text in pieces if text]


def text_of(canisters: AnyCanister | Iterable[AnyCanister]) -> str:
    """Return the text of one or several canisters, in order and without reasoning.

    Consecutive texts of a model's canister are joined directly, because vendors split a text at
    citations. An empty line separates all other texts: those of different canisters, those before
    and after reasoning or media, and those of a canister that is not from a model.
    """
    if isinstance(canisters, Iterable):
        return BOUNDARY.join(filter(None, [each.text for each in canisters]))
    return canisters.text


def answer_text(canisters: Iterable[AnyCanister]) -> str:
    """Return the text that a model wrote, without the results of tools that its vendor executed."""
    return text_of([each for each in canisters if each.role == "assistant"])


_MIN_CANISTERS: Final = 16
"""Canisters of a conversation whose contents are remembered: of fewer, they are found as fast."""

_CALLS: Final = frozenset((InvocationCanister, ResultCanister))
_ONLY_TEXTS: Final[frozenset[type]] = frozenset((TextualContent,))


class _Contents(NamedTuple):
    """Summary of the contents of a conversation.

    Attributes:
        canisters: The conversation.
        classes: The classes of all contents.
        names: The names of its calls and their results.
        texts: For each canister, its text if it is plain, native data of answers aside.
        plain_texts: The same, but ``None`` for answers with native data.
    """

    canisters: Iterable[AnyCanister]
    classes: frozenset[type]
    names: frozenset[str | None]
    texts: Sequence[str | None]
    plain_texts: Sequence[str | None]


_NOTHING: Final = _Contents((), frozenset(), frozenset(), (), ())
_recent = _NOTHING
"""The last long conversation without media."""


def has_calls(canisters: Sequence[AnyCanister]) -> bool:
    """Return whether a conversation has calls or their results."""
    recent = _recent  # at once, for other threads
    if canisters is recent.canisters:
        return bool(recent.names)
    return not _CALLS.isdisjoint(map(type, canisters))


def list_content_classes(canisters: Iterable[AnyCanister]) -> frozenset[type]:
    """Return the classes of all contents of canisters."""
    return _survey(canisters).classes


def list_call_names(canisters: Sequence[AnyCanister]) -> frozenset[str | None]:
    """Return the names of all calls and of their results; ``None`` if a result has no name."""
    return _survey(canisters).names if has_calls(canisters) else frozenset()


def list_plain_texts(
    canisters: Iterable[AnyCanister], *, allows_native: bool = False
) -> Sequence[str | None]:
    """Return, for each canister without native data, its text if that is its only content.

    ``None`` for any other canister: it is a call, its text has citations, a type or native data, or
    it has several contents.

    Args:
        allows_native: Whether answers may have native data, as the caller handles them.
    """
    contents = _survey(canisters)
    return contents.texts if allows_native else contents.plain_texts


def remember_plain(canisters: tuple[AnyCanister, ...], texts: Sequence[str | None]) -> None:
    """Remember the texts of a new conversation, so that it is not looked through.

    Args:
        canisters: Each has at most one content, a text, and no native data.
        texts: See :func:`list_plain_texts`.
    """
    global _recent
    if len(canisters) >= _MIN_CANISTERS:
        names: set[str | None] = set()
        if has_calls(canisters):
            names.update([each.name for each in canisters if type(each) is InvocationCanister])
            names.update([each.name for each in canisters if type(each) is ResultCanister])
        _recent = _Contents(canisters, _ONLY_TEXTS, frozenset(names), texts, texts)


def _survey(canisters: Iterable[AnyCanister]) -> _Contents:
    """Look through a conversation; several parts of a request ask for the same one."""
    global _recent
    recent = _recent  # at once, for other threads
    if canisters is recent.canisters:
        return recent
    earlier = recent if _continues(recent, canisters) else _NOTHING
    texts, classes, names = [*earlier.texts], {*earlier.classes}, {*earlier.names}
    start = len(texts)
    answers: list[int] = []  # the positions of those with native data
    canister: Any
    for canister in itertools.islice(canisters, start, None):
        kind, text = type(canister), None
        if kind is UserCanister:
            contents, native = canister.content, canister.native
        elif kind is InvocationCanister:
            names.add(canister.name)
            if canister.content:
                classes.update(map(type, canister.content))
            texts.append(None)
            continue
        else:  # the same in another line: one that meets several classes takes ten times as long
            contents, native = canister.content, canister.native
            if kind is ResultCanister:
                names.add(canister.name)
        if len(contents) == 1:
            content = contents[0]
            if (
                type(content) is TextualContent
                and content.native is None
                and content.mime_type == "text/plain"
                and not content.citations
            ):
                text = content.text
        if text is None:
            classes.update(map(type, contents))
        elif native is not None:
            if kind is AssistantCanister:
                answers.append(len(texts))
            else:
                classes.add(TextualContent)
                text = None
        texts.append(text)
    if TextualContent not in classes and any(text is not None for text in texts):
        classes.add(TextualContent)
    plain_texts = [*earlier.plain_texts, *texts[start:]]
    for position in answers:
        plain_texts[position] = None
    is_long = type(canisters) is tuple and len(canisters) >= _MIN_CANISTERS
    found = _Contents(canisters, frozenset(classes), frozenset(names), texts, plain_texts)
    if is_long and classes.isdisjoint(MEDIA_CLASSES):  # media may be large
        _recent = found
    return found


def _continues(earlier: _Contents, canisters: Iterable[AnyCanister]) -> bool:
    """Return whether a conversation begins with the canisters of an earlier one."""
    return (
        type(canisters) is tuple
        and len(canisters) >= len(earlier.texts)
        and all(map(operator.is_, earlier.canisters, canisters))
    )


def media_of(canisters: Iterable[AnyCanister]) -> tuple[MediaContent, ...]:
    """Return all media contents, in order."""
    return tuple(
        item
        for canister in canisters
        for item in canister.content
        if isinstance(item, MEDIA_CLASSES)
    )


class Pair(NamedTuple):  # cheap to define, since it is imported at every start
    """An invocation and its result; ``result`` is ``None`` while it is missing."""

    invocation: InvocationCanister
    result: ResultCanister | None


def match_results(canisters: Iterable[AnyCanister]) -> dict[int, int]:
    """Return the position of the result of each call that has one, by the call's position.

    Vendors may use an id again, so that an id alone does not identify a pair. A result belongs to
    the latest answer that has an open call with its id, and there to the first of these calls. An
    answer ends at the next turn, input or result.
    """
    results: dict[int, int] = {}
    open_calls: dict[str, dict[tuple[str | None, int], deque[int]]] = {}  # by id and answer
    start = 0
    for index, canister in enumerate(canisters):
        if isinstance(canister, InvocationCanister):
            answers = open_calls.setdefault(canister.invocation_id, {})
            answers.setdefault((canister.turn_id, start), deque()).append(index)
        elif not isinstance(canister, AssistantCanister):
            start = index
            if isinstance(canister, ResultCanister) and open_calls.get(canister.invocation_id):
                answers = open_calls[canister.invocation_id]
                latest = next(reversed(answers))
                results[answers[latest].popleft()] = index
                if not answers[latest]:
                    del answers[latest]
    return results


def pairs_of(canisters: Iterable[AnyCanister]) -> tuple[Pair, ...]:
    """Pair each call with its result, if it has one."""
    canisters = list(canisters)
    results = match_results(canisters)

    def find_result(index: int) -> ResultCanister | None:
        return cast("ResultCanister", canisters[results[index]]) if index in results else None

    return tuple(
        Pair(invocation=canister, result=find_result(index))
        for index, canister in enumerate(canisters)
        if isinstance(canister, InvocationCanister)
    )


def usage_of(canisters: Sequence[AnyCanister]) -> Usage | None:
    """Add up the usage of the turns, each turn once, and of summaries.

    ``None`` if none reported it.
    """
    usages: list[Usage | None] = []
    counted: set[str] = set()  # ids of turns
    for canister in canisters:
        if isinstance(canister, DocumentCanister) and canister.summarizes is not None:
            usages += [origin.usage for origin in canister.summarizes.origins]
        origin = canister.origin
        if origin is None or origin.usage is None:
            continue
        turn = canister.turn_id or canister.id
        if turn in counted:
            continue
        counted.add(turn)
        usages.append(origin.usage)
    return add_usages(usages)


def add_usages(usages: Iterable[Usage | None]) -> Usage | None:
    """Return the sum of usages without the missing ones; ``None`` if all are missing."""
    total: Usage | None = None
    for usage in usages:
        if usage is not None:
            total = usage if total is None else total + usage
    return total


def is_input_blank(canisters: Sequence[AnyCanister]) -> bool:
    """Return whether there are messages after the last answer or tool result, all of them blank.

    Then there is nothing that a model could answer. Instructions with text count as input only if
    no other message follows the answer.
    """
    has_blank_message = False
    instructions: list[AnyCanister] = []
    for canister in reversed(canisters):
        if canister.role in ("assistant", "invocation", "result"):
            break
        if canister.role == "supervisor":
            instructions.append(canister)
        elif _has_content(canister):
            return False
        else:
            has_blank_message = True
    if has_blank_message:
        return True
    return bool(instructions) and not any(map(_has_content, instructions))


def _has_content(canister: AnyCanister) -> bool:
    for content in canister.content:
        if isinstance(content, CacheHint):
            continue
        if not isinstance(content, (TextualContent, RefusalContent)) or content.text.strip():
            return True
    return False
