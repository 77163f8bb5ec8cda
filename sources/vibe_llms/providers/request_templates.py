"""Cache of translated request templates.

Programs mostly send a model requests that differ only in their texts: a prompt, perhaps after
instructions. The second such request is also translated with marks in place of its texts. The
result is a template, which later requests only fill in.

This requires processors for which texts have no effect on the rest of the body
(:attr:`.FunctionProcessor.is_verbatim`), and a vendor that composes the body as its dialect does.
All other requests are translated completely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias, cast

import attrs
import msgspec

from vibe_llms.dialects.processors import FunctionProcessor, Processors
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import SupervisorCanister, UserCanister
from vibe_llms.messages.contents import TextualContent
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.losses import Loss, Translation
from vibe_llms.messages.requests import Request, replace_canisters
from vibe_llms.messages.trusting import trusted

MAX_TEMPLATES: Final = 64
"""Maximum templates; the cache is emptied when it is full."""

_make_translation: Final = trusted(Translation)
_SHAPES: Final = ((UserCanister,), (SupervisorCanister, UserCanister))
_Path: TypeAlias = tuple[str | int, ...]


@frozen
class RequestTemplate:
    """A translated request without its texts.

    Attributes:
        body: The native request, with marks in place of the texts.
        paths: For each text, its path in the body: names and indexes.
        losses: Losses of the translation.
    """

    body: JsonObject
    paths: tuple[_Path, ...]
    losses: tuple[Loss, ...]

    def fill(self, texts: Sequence[str]) -> Translation[JsonObject]:
        """Return the request with these texts; parts without texts are shared, not copied."""
        body: Any = self.body
        for path, text in zip(self.paths, texts, strict=True):
            body = _replace(body, path, text)
        return _make_translation(value=body, losses=self.losses)


class RequestTemplates:
    """Translates requests to one model, from a template where possible.

    Args:
        translate: Translates any request; its second argument is whether to stream the answer.
    """

    def __init__(self, translate: Callable[[Request, bool], Translation[JsonObject]]) -> None:
        self._translate = translate
        self._seen: set[object] = set()
        self._templates: dict[
            object, RequestTemplate | None
        ] = {}  # None: this kind has no template

    def nativize(self, request: Request, streaming: bool) -> Translation[JsonObject]:
        """Translate a request. Raises RequestError."""
        texts = read_texts(request)
        if texts is None:
            return self._translate(request, streaming)
        # As JSON, because `True == 1`.
        controls = msgspec.json.encode(request.controls)
        kind = (streaming, len(texts), request.model, controls)
        template = self._templates.get(kind)
        if template is not None:
            return template.fill(texts)
        translation = self._translate(request, streaming)
        if kind not in self._seen:
            if len(self._seen) >= MAX_TEMPLATES:
                self._seen.clear()
                self._templates.clear()
            self._seen.add(kind)  # the second request of this kind makes the template
        elif kind not in self._templates:
            self._templates[kind] = self._make(request, texts, streaming, translation)
        return translation

    def _make(
        self,
        request: Request,
        texts: Sequence[str],
        streaming: bool,
        translation: Translation[JsonObject],
    ) -> RequestTemplate | None:
        """Return the template of a request; ``None`` if the request cannot have a template."""
        marks = [f"<{produce_identity()}>" for _ in texts]  # unique, so no text contains it
        canisters = [
            attrs.evolve(canister, content=(TextualContent(mark),))
            for canister, mark in zip(request.canisters, marks, strict=True)
        ]
        marked = self._translate(replace_canisters(request, canisters), streaming)
        paths_by_mark = [list(_find_paths(marked.value, mark)) for mark in marks]
        # A mark that is missing, repeated or part of another text cannot be filled in.
        if any(len(paths) != 1 for paths in paths_by_mark):
            return None
        template = RequestTemplate(
            marked.value, tuple(paths[0] for paths in paths_by_mark), marked.losses
        )
        filled = template.fill(texts)
        # Check with this request that its texts do not affect the rest of the body.
        is_same = msgspec.json.encode(filled.value) == msgspec.json.encode(translation.value)
        return template if is_same and filled.losses == translation.losses else None


def are_verbatim(processors: Processors) -> bool:
    """Return whether the processors write texts unchanged, without an effect on other fields."""
    parts = (processors.controls, processors.messages, processors.invocations)
    return all(isinstance(each, FunctionProcessor) and each.is_verbatim for each in parts)


def read_texts(request: Request) -> list[str] | None:
    """Return the texts of a prompt, perhaps after instructions; ``None`` for other requests."""
    canisters = request.canisters
    if (
        len(canisters) > 2
        or request.invocables
        or request.invocation_choice != "auto"
        or request.continuation
        or request.schema is not None
        or request.native is not None
        or request.cache is not None
        or tuple(map(type, canisters)) not in _SHAPES
    ):
        return None
    texts = []
    for canister in cast("tuple[UserCanister, ...]", canisters):
        if canister.native is not None or len(canister.content) != 1:
            return None
        content = canister.content[0]
        if (
            content.__class__ is not TextualContent
            or content.native is not None
            or content.citations
            or content.mime_type != "text/plain"
            or content.text.isspace()  # blank texts are omitted for some vendors
            or not content.text
        ):
            return None
        texts.append(content.text)
    return texts


def _replace(node: Any, path: _Path, text: str) -> Any:
    """Return a copy of the data with a text at a path; the other branches are shared."""
    root = parent = node.copy()
    for name in path[:-1]:
        child = parent[name].copy()
        parent[name] = child
        parent = child
    parent[path[-1]] = text
    return root


def _find_paths(node: Any, mark: str) -> Iterator[_Path]:
    """Yield the path of a mark.

    If the mark is only a part of a text, yield the path twice, so that the caller rejects the
    template."""
    if isinstance(node, str) and mark in node:
        yield ()
        if node != mark:
            yield ()
    elif isinstance(node, dict):
        for name, each in node.items():
            yield from _find_paths(name, mark) if mark in name else ()
            yield from ((name, *path) for path in _find_paths(each, mark))
    elif isinstance(node, list):
        for index, each in enumerate(node):
            yield from ((index, *path) for path in _find_paths(each, mark))
