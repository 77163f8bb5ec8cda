"""The fidelity matrix: what becomes of each feature between each two vendors, and why.

It comes from the translations that the tests make. What is reported as gone was left out and made
no difference, which the same tests ensure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import attrs

from fidelity.conversations import (
    CONTROLS,
    INVOCABLES,
    ask,
    begin,
    close,
    describe_own,
    execute,
    hint,
    produce_request,
    work,
)
from fidelity.parties import PARTIES, Party
from vibe_llms.exceptions import RequestError
from vibe_llms.messages.canisters import AssistantCanister, InvocationCanister, Owner
from vibe_llms.messages.contents import ReasoningContent, RefusalContent, TextualContent
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.messages.requests import Request

_KINDS: Final = (LossKind.DROPPED, LossKind.WITHHELD, LossKind.COERCED)
NO_CONTROL: Final = "sent by its own name, if the attributes of the model have this control"


@attrs.frozen(kw_only=True)
class Feature:
    """Something that can be in a request, and where.

    Attributes:
        title: For the reader.
        request: That holds it.
        paths: Of the fields that it is in.
    """

    title: str
    request: Request
    paths: tuple[str, ...]


@attrs.frozen
class Verdict:
    """What becomes of a feature: a word, and the reasons that the report gives."""

    word: str
    reasons: tuple[str, ...] = ()


def judge(feature: Feature, party: Party) -> Verdict:
    """Tells what becomes of a feature at a vendor."""
    try:
        losses = party.nativize(feature.request).losses
    except RequestError as error:
        return Verdict("refused", (str(error),))
    gone = [_find_gone(path, losses) for path in feature.paths]
    if all(gone):
        kind = next(each for each in _KINDS if any(loss.kind is each for loss in gone if loss))
        return Verdict(str(kind), _collect([loss for loss in gone if loss and loss.kind is kind]))
    within = [loss for loss in gone if loss]
    within += [loss for loss in losses if any(_is_in(path, loss) for path in feature.paths)]
    if within:
        return Verdict("in part", _collect(within, within=True))
    if feature.request.controls and not _has_word(feature.request, party):
        return Verdict("refused", (NO_CONTROL,))
    return Verdict("kept")


def _has_word(request: Request, party: Party) -> bool:
    """Tells whether the protocol has a word for a control, whichever model is asked."""
    body = party.nativize(request).value
    return set(request.controls) <= set(party.dialect.normalize_request(body).value.controls)


def _find_gone(path: str, losses: Sequence[Loss]) -> Loss | None:
    """Returns the worst that is said of a field, or of what it is in."""
    told = [loss for loss in losses if _is_of(path, loss)]
    return min(told, key=lambda loss: _KINDS.index(loss.kind), default=None)


def _is_of(path: str, loss: Loss) -> bool:
    around = path == loss.path or path.startswith((f"{loss.path}.", f"{loss.path}["))
    return around and loss.kind in _KINDS


def _is_in(path: str, loss: Loss) -> bool:
    return loss.kind in _KINDS and loss.path.startswith((f"{path}.", f"{path}["))


def _collect(losses: Sequence[Loss], *, within: bool = False) -> tuple[str, ...]:
    told = (
        f"{loss.kind}, {loss.path.rpartition('.')[2]}: {loss.reason}" if within else loss.reason
        for loss in losses
    )
    return tuple(dict.fromkeys(told))


def survey_said() -> Iterator[Feature]:
    """Yields what users and applications say, of which no vendor knows more than another."""
    request = produce_request((*begin(), ask("Go on.")))
    contents = (
        ("Instructions", "canisters[0]"),
        ("Text", "canisters[1].content[0]"),
        ("Picture, inline", "canisters[1].content[1]"),
        ("Picture, by its address", "canisters[1].content[2]"),
        ("Picture, by a vendor's file id", "canisters[1].content[3]"),
        ("PDF, inline, with title and context", "canisters[1].content[4]"),
        ("PDF, by its address", "canisters[1].content[5]"),
        ("Sound", "canisters[1].content[6]"),
        ("Video, by its address", "canisters[1].content[7]"),
        ("Document canister", "canisters[2]"),
    )
    for title, path in contents:
        yield Feature(title=title, request=request, paths=(path,))
    for index, invocable in enumerate(INVOCABLES):
        title = ("Tool with a schema", "Tool whose schema is enforced", "Tool of free text")[index]
        alone = attrs.evolve(request, invocables=(invocable,))
        yield Feature(title=title, request=alone, paths=("invocables[0]",))
    for choice in ("none", "required", "weather"):
        chosen = attrs.evolve(request, invocables=INVOCABLES[:1], invocation_choice=choice)
        title = "Choice of one tool" if choice == "weather" else f"Choice: {choice}"
        yield Feature(title=title, request=chosen, paths=("invocation_choice",))
    yield Feature(
        title="Answer held to a schema",
        request=attrs.evolve(request, schema=INVOCABLES[0].schema),
        paths=("schema",),
    )
    for name, value in CONTROLS.items():
        asked = attrs.evolve(request, controls={name: value})
        yield Feature(title=f"Control {name}", request=asked, paths=(f"controls.{name}",))
    turn = work(PARTIES[0])
    told = produce_request((ask("Hi"), *turn, *execute(turn)))
    results = [i for i, canister in enumerate(told.canisters) if canister.role == "result"]
    first, second = results
    parts = (
        ("Result of an invocation", f"canisters[{first}].content[0]"),
        ("Picture in a result", f"canisters[{first}].content[1]"),
        ("Mark of an error on a result", f"canisters[{second}].is_error"),
    )
    for title, path in parts:
        yield Feature(title=title, request=told, paths=(path,))


def survey_answered(party: Party) -> Iterator[Feature]:
    """Yields what a vendor answers, and what is said in its own words, where it has that."""
    turn = work(party)
    canisters = (ask("Hi"), *turn, *execute(turn), *close(party), hint(party), ask("Go on."))
    own = describe_own(party)
    request = produce_request(canisters, invocables=(*INVOCABLES, *own))
    for title, finds in _FINDERS:
        paths = tuple(finds(canisters))
        if paths:
            yield Feature(title=title, request=request, paths=paths)
    if own:
        path = f"invocables[{len(INVOCABLES)}]"
        yield Feature(title="Tool of the vendor's own", request=request, paths=(path,))
    index = len(canisters) - 2
    if getattr(canisters[index].content[0], "native", None) is not None:
        path = f"canisters[{index}].content[0].native"
        yield Feature(title="Hint beside a text (caches)", request=request, paths=(path,))


def _find_contents(kind: Callable[[Any], bool]) -> Callable[[Sequence[Any]], Iterator[str]]:
    def find(canisters: Sequence[Any]) -> Iterator[str]:
        for index, canister in enumerate(canisters):
            if not isinstance(canister, AssistantCanister):
                continue
            for position, content in enumerate(canister.content):
                if kind(content):
                    yield f"canisters[{index}].content[{position}]"

    return find


def _find_field(name: str, kind: Callable[[Any], bool]) -> Callable[[Sequence[Any]], Iterator[str]]:
    return lambda canisters: (f"{path}.{name}" for path in _find_contents(kind)(canisters))


def _find_citations(canisters: Sequence[Any]) -> Iterator[str]:
    for index, canister in enumerate(canisters):
        for position, content in enumerate(canister.content):
            for number, _ in enumerate(getattr(content, "citations", ())):
                yield f"canisters[{index}].content[{position}].citations[{number}]"


def _find_canisters(kind: Callable[[Any], bool]) -> Callable[[Sequence[Any]], Iterator[str]]:
    return lambda canisters: (f"canisters[{i}]" for i, each in enumerate(canisters) if kind(each))


def _is_call(canister: Any, form: str) -> bool:
    ours = isinstance(canister, InvocationCanister) and canister.owner is Owner.OURS
    return ours and canister.form == form


def _is_thought(content: Any) -> bool:
    return isinstance(content, ReasoningContent) and bool(content.text or content.summary)


_FINDERS: Final[Sequence[tuple[str, Callable[[Sequence[Any]], Iterator[str]]]]] = (
    ("Text", _find_contents(lambda each: isinstance(each, TextualContent))),
    ("Citations", _find_citations),
    ("Reasoning that can be read", _find_contents(_is_thought)),
    (
        "Signature of reasoning",
        _find_field(
            "signature",
            lambda each: isinstance(each, ReasoningContent) and each.signature is not None,
        ),
    ),
    (
        "Redacted or encrypted reasoning",
        _find_field(
            "signature", lambda each: isinstance(each, ReasoningContent) and not _is_thought(each)
        ),
    ),
    ("Invocations, several at once", _find_canisters(lambda each: _is_call(each, "json"))),
    ("Invocation with free text", _find_canisters(lambda each: _is_call(each, "text"))),
    (
        "What the vendor executed itself",
        _find_canisters(lambda each: getattr(each, "owner", None) is Owner.VENDOR),
    ),
    ("Refusal", _find_contents(lambda each: isinstance(each, RefusalContent))),
    ("Picture that the model made", _find_contents(lambda each: each.type == "image")),
    ("Sound that the model made", _find_contents(lambda each: each.type == "audio")),
    ("Block without a common word", _find_contents(lambda each: each.type == "native")),
    (
        "Ids, phases and whatever else the vendor wrote around it",
        lambda canisters: (
            f"canisters[{i}].native"
            for i, each in enumerate(canisters)
            if isinstance(each, AssistantCanister | InvocationCanister)
            and getattr(each, "owner", Owner.OURS) is Owner.OURS
            and _says_fields(each)
        ),
    ),
)


def _says_fields(canister: Any) -> bool:
    native = canister.native
    return native is not None and not native.data.startswith('{"$"')
