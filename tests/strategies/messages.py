"""Strategies for contents, canisters, requests, responses and errors.

Small on purpose: many shapes, short texts. Every class of the package is reached; errors are
made from the annotations of any subclass of ``ConverseError``, so that a new one is covered.
"""

from __future__ import annotations

import enum
import typing
from datetime import datetime, timedelta, timezone
from typing import Any

from hypothesis import strategies as st

from vibe_llms.exceptions import ConverseError, Finding
from vibe_llms.messages.canisters import (
    INPUT_BUCKETS,
    OUTPUT_BUCKETS,
    AnyCanister,
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    Origin,
    Owner,
    ResultCanister,
    StopReason,
    SummarizedPart,
    SupervisorCanister,
    Usage,
    UserCanister,
)
from vibe_llms.messages.contents import (
    AnyContent,
    AudioContent,
    CacheHint,
    Citation,
    FileContent,
    ImageContent,
    Native,
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
    VideoContent,
)
from vibe_llms.messages.descriptions import CHOICES, InvocableDescription
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.messages.requests import (
    ANSWERABLE_ROLES,
    Request,
    Response,
    ResponseMetadata,
    is_answerable,
)

texts = st.text(max_size=12)
"""Any text that UTF-8 can carry: control characters, emoji, other scripts."""

words = st.text(min_size=1, max_size=8).filter(lambda text: bool(text.strip()))
counts = st.integers(min_value=0, max_value=2**40)
seconds = st.floats(min_value=0, max_value=1e9, allow_nan=False)
content_ids = st.binary(min_size=32, max_size=32).map(bytes.hex)

timestamps = st.datetimes(
    min_value=datetime(1, 1, 2),
    max_value=datetime(9999, 12, 30),
    timezones=st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m))),
)
"""Aware moments of any zone."""

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**63), max_value=2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(texts, json_values, max_size=3)

natives = st.builds(Native, protocol=words, data=texts)


def optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mostly absent, as such fields are."""
    return st.none() | strategy


citations = st.builds(
    Citation,
    start=optional(counts),
    end=optional(counts),
    cited_text=optional(texts),
    title=optional(texts),
    url=optional(texts),
    file_id=optional(texts),
    native=optional(natives),
)


def _media(cls: type, **more: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    described = {
        "mime_type": st.sampled_from(["image/png", "audio/wav", "application/pdf"]),
        "name": optional(texts),
        "native": optional(natives),
        **more,
    }
    return st.one_of(
        st.builds(cls, data=st.binary(max_size=20), url=optional(texts), **described),
        st.builds(cls, content_id=content_ids, file_id=optional(texts), **described),
        st.builds(cls, url=texts, file_id=optional(texts), **described),
    )


cache_hints = st.builds(CacheHint, st.sampled_from([None, "5m", "60m", "1h"]), key=optional(words))
textual_contents = st.builds(
    TextualContent,
    texts,
    mime_type=st.sampled_from(["text/plain", "text/markdown"]),
    citations=st.lists(citations, max_size=2),
    native=optional(natives),
)
model_contents: st.SearchStrategy[AnyContent] = st.one_of(
    textual_contents,
    _media(ImageContent, detail=optional(words)),
    _media(AudioContent, transcript=optional(texts)),
    _media(VideoContent),
    _media(FileContent, title=optional(texts), context=optional(texts)),
    st.builds(
        ReasoningContent,
        text=texts,
        summary=st.lists(texts, max_size=2),
        signature=optional(texts),
        native=optional(natives),
    ),
    st.builds(RefusalContent, texts, native=optional(natives)),
    st.builds(NativeContent, kind=words, native=natives, text=texts),
)
contents: st.SearchStrategy[AnyContent] = model_contents | cache_hints

usages = st.builds(
    Usage,
    **{name: optional(counts) for name in (*INPUT_BUCKETS, *OUTPUT_BUCKETS)},
    native=optional(texts),
)
origins = st.builds(
    Origin,
    provider=words,
    model=words,
    protocol=optional(words),
    response_id=optional(words),
    stop_reason=st.sampled_from(StopReason),
    native_stop_reason=optional(words),
    usage=optional(usages),
)

summarized_parts = st.builds(
    SummarizedPart,
    conversation=words,
    first=words,
    last=words,
    files=st.lists(texts, max_size=2),
    origins=st.lists(origins, max_size=2),
)

_common: dict[str, Any] = {
    "content": st.lists(contents, max_size=3),
    "timestamp": timestamps,
    "id": words,
}
_from_models: dict[str, Any] = {
    **_common,
    "content": st.lists(model_contents, max_size=3),
    "origin": optional(origins),
    "turn_id": optional(words),
    "native": optional(natives),
}
canisters_by_role: dict[str, st.SearchStrategy[AnyCanister]] = {
    "user": st.builds(UserCanister, native=optional(natives), **_common),
    "supervisor": st.builds(SupervisorCanister, native=optional(natives), **_common),
    "document": st.builds(
        DocumentCanister,
        title=optional(texts),
        native=optional(natives),
        summarizes=optional(summarized_parts),
        **_common,
    ),
    "assistant": st.builds(AssistantCanister, **_from_models),
    "invocation": st.builds(
        InvocationCanister,
        invocation_id=words,
        name=words,
        arguments=texts,
        form=st.sampled_from(["json", "text"]),
        owner=st.sampled_from(Owner),
        **_from_models,
    ),
    "result": st.builds(
        ResultCanister,
        invocation_id=words,
        name=optional(words),
        is_error=st.booleans(),
        owner=st.sampled_from(Owner),
        **_from_models,
    ),
}
canisters: st.SearchStrategy[AnyCanister] = st.one_of(*canisters_by_role.values())
conversations: st.SearchStrategy[list[AnyCanister]] = st.lists(
    canisters, max_size=5, unique_by=lambda canister: canister.id
)
"""Canisters in any order, also none and such as make little sense."""

answerable_canisters = st.one_of(
    *(canisters_by_role[role] for role in sorted(ANSWERABLE_ROLES))
).filter(is_answerable)

invocables = st.builds(
    InvocableDescription,
    name=words.filter(lambda name: name not in CHOICES),
    description=words,
    schema=optional(json_objects),
    enforced=st.booleans(),
    native=optional(natives),
    cache=optional(cache_hints),
)


@st.composite
def _choices(draw: st.DrawFn) -> dict[str, Any]:
    """Draws invocables, and a choice which they allow."""
    described = draw(st.lists(invocables, max_size=2, unique_by=lambda item: item.name))
    known = ["auto", "none", *(["required"] if described else []), *(i.name for i in described)]
    return {"invocables": described, "invocation_choice": draw(st.sampled_from(known))}


requests: st.SearchStrategy[Request] = st.builds(
    lambda choice, **fields: Request(**choice, **fields),
    choice=_choices(),
    canisters=st.builds(
        lambda earlier, last: [*earlier, last],
        st.lists(canisters, max_size=3),
        answerable_canisters,
    ),
    model=texts,
    controls=json_objects,
    schema=optional(json_objects),
    continuation=st.booleans(),
    strict=st.booleans(),
    native=optional(natives),
    conversation_id=texts,
    cache=optional(cache_hints),
)
losses = st.builds(Loss, kind=st.sampled_from(LossKind), path=texts, reason=texts)
responses: st.SearchStrategy[Response] = st.builds(
    Response,
    request=requests,
    canisters=conversations,
    metadata=st.builds(
        ResponseMetadata,
        origin=origins,
        duration_seconds=seconds,
        first_seconds=optional(seconds),
        attempts=st.integers(1, 9),
        request_id=optional(words),
        native=optional(natives),
    ),
    losses=st.lists(losses, max_size=2),
)


def survey_error_classes() -> list[type[ConverseError]]:
    """Returns every class of errors that anything imported so far declares."""
    found: list[type[ConverseError]] = []
    waiting: list[type[ConverseError]] = [ConverseError]
    while waiting:
        found.append(waiting.pop())
        waiting.extend(found[-1].__subclasses__())
    return sorted(found, key=lambda cls: cls.__name__)


def errors_of(cls: type[ConverseError]) -> st.SearchStrategy[ConverseError]:
    """Makes errors of one class, from the annotations of its facts."""
    hints = typing.get_type_hints(cls)
    return st.builds(cls, **{name: _facts_of(hints[name]) for name in cls.FACTS})


def _facts_of(hint: Any) -> st.SearchStrategy[Any]:
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        return st.lists(_facts_of(arguments[0]), max_size=2).map(tuple)
    if arguments:
        return st.one_of(*map(_facts_of, arguments))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return st.sampled_from(hint)
    return {
        str: texts,
        int: counts,
        float: st.floats(allow_nan=False).map(lambda x: x + 0.0),  # no -0.0
        bool: st.booleans(),
        type(None): st.none(),
        Finding: st.builds(Finding, place=texts, line=counts, message=texts),
    }[hint]


errors: st.SearchStrategy[ConverseError] = st.deferred(
    lambda: st.one_of(*map(errors_of, survey_error_classes()))
)
"""Errors of every class, with any facts."""
