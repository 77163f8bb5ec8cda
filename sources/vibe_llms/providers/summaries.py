"""Summaries of a conversation's oldest turns, written by a model in as many calls as necessary."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

import attrs

from vibe_llms.exceptions import ContextOverflowError, ConverseError, ParseError, Stage
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.messages.canisters import (
    AnyCanister,
    DocumentCanister,
    InvocationCanister,
    Origin,
    SummarizedPart,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import FileContent, TextualContent
from vibe_llms.messages.requests import Request, Response
from vibe_llms.messages.views import media_of, text_of
from vibe_llms.models.attributes import Capability
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.models.tokens import count_text

Ask: TypeAlias = Callable[[Request], Awaitable[Response]]
"""Sends a request to the model and returns its response."""

SUMMARY_TITLE: Final = "Summary of the conversation before this"
SUMMARY_TOKENS: Final = 600
"""Tokens reserved for a summary in a request; a quarter of the room if that is less."""

_UNKNOWN_ROOM: Final = 8192
"""Assumed room for input of a model whose window is unknown."""
_MAX_FILES: Final = 50
_MAX_FILE_TOKENS: Final = 2000
"""Maximum tokens of all names of files in a summary; an eighth of the room if that is less."""
_FILE_ARGUMENTS: Final = frozenset({"file", "file_name", "file_path", "filename", "path"})
"""Arguments of tools that name a file."""
_SHORTEST_CHUNK: Final = 200
"""Characters below which a text is not divided further if it does not fit."""

_INSTRUCTIONS: Final = (
    "Summarize the beginning of a conversation; the summary replaces it. Keep names, numbers, "
    "wishes, decisions and results, and what is still open. Keep what the summary so far says, "
    "unless it is outdated. Write at most {words} words, and nothing but the summary."
)
_INSTRUCTIONS_TOKENS: Final = 96


@frozen(kw_only=True)
class Summary:
    """A summary that replaces the oldest turns.

    Attributes:
        text: The model's text.
        origins: Origins of the model calls that wrote the summary, with usage; empty for a cached
            summary.
    """

    text: str
    origins: tuple[Origin, ...] = ()

    def produce_document(
        self, replaced: Sequence[AnyCanister], conversation_id: str, *, room: int | None = None
    ) -> DocumentCanister:
        """Return the canister of the summary, which names what it replaces.

        Args:
            replaced: The canisters that it replaces, oldest first.
            conversation_id: The conversation that has these canisters.
            room: Tokens of input for which the model's window has room; ``None`` if unknown.
        """
        files = tuple(_limit_files(survey_files(replaced), room or _UNKNOWN_ROOM))
        contents = [TextualContent(self.text)]
        if files:
            contents.append(TextualContent(f"Files: {', '.join(files)}"))
        part = SummarizedPart(
            conversation=conversation_id,
            first=replaced[0].id,
            last=replaced[-1].id,
            files=files,
            origins=self.origins,
        )
        return DocumentCanister(contents, title=SUMMARY_TITLE, summarizes=part)


def describe_usage(origins: Sequence[Origin]) -> str:
    """Return the usage of calls that wrote a summary, to append to a sentence; empty if unknown."""
    usages = [origin.usage for origin in origins if origin.usage is not None]
    input_tokens = sum(usage.total_input_tokens or 0 for usage in usages)
    output_tokens = sum(usage.total_output_tokens or 0 for usage in usages)
    if not (input_tokens or output_tokens):
        return ""
    return f" ({input_tokens:,} tokens in, {output_tokens:,} out)"


def measure_summary(room: int | None) -> int:
    """Return the maximum tokens of a summary, by the room that the window has for input."""
    return min(SUMMARY_TOKENS, max((room or _UNKNOWN_ROOM) // 4, 1))


def is_summary(canister: AnyCanister) -> bool:
    """Return whether a canister is a summary of other canisters."""
    return isinstance(canister, DocumentCanister) and canister.summarizes is not None


async def summarize(
    ask: Ask,
    descriptor: ModelDescriptor,
    request: Request,
    turns: Sequence[AnyCanister],
    *,
    earlier_summary: str = "",
    room: int | None = None,
) -> Summary:
    """Let a model summarize turns.

    Args:
        request: The request that contains the turns; provides the model and the conversation's id.
        turns: The turns, oldest first. If the first one is a summary, it is the earlier summary.
        earlier_summary: A summary of earlier turns, which this one replaces.
        room: Tokens of input for which the model's window has room; ``None`` if unknown.

    Raises:
        ConverseError: There is no answer, or it is empty.
    """
    if not earlier_summary and is_summary(turns[0]):
        text_alone = attrs.evolve(turns[0], content=turns[0].content[:1])  # without its files
        earlier_summary, turns = text_of(text_alone), turns[1:]
    writer = _Writer(ask, descriptor, request, measure_summary(room), earlier_summary)
    room = room or _UNKNOWN_ROOM
    # Beside a chunk, a request has the instructions and the summary so far, and the window also has
    # the new one. Token counts are estimates.
    free_tokens = room - 2 * writer.tokens - _INSTRUCTIONS_TOKENS
    for chunk in _divide(turns, max(min(room // 2, free_tokens * 7 // 8), 16)):
        await writer.add(chunk)
    return Summary(text=writer.text, origins=tuple(writer.origins))


@define
class _Writer:
    """A summary in progress.

    Attributes:
        tokens: Maximum tokens of the summary.
        text: The summary so far.
        origins: Origins of the calls so far.
    """

    _ask: Ask
    _descriptor: ModelDescriptor
    _request: Request
    tokens: int
    text: str
    origins: list[Origin] = attrs.field(factory=list)

    async def add(self, chunk: str) -> None:
        """Replace the summary by one that includes a chunk; divide a chunk that is too long."""
        try:
            await self._rewrite(chunk)
        except ContextOverflowError:
            if len(chunk) < _SHORTEST_CHUNK:
                raise
            middle = len(chunk) // 2
            await self.add(chunk[:middle])
            await self.add(chunk[middle:])

    async def _rewrite(self, chunk: str) -> None:
        context = f"Summary so far:\n\n{self.text}\n\nWhat was said then:\n\n" if self.text else ""
        instructions = _INSTRUCTIONS.format(words=max(self.tokens // 2, 1))
        question = Request(
            canisters=(SupervisorCanister(instructions), UserCanister(f"{context}{chunk}")),
            model=self._request.model,
            controls=self._compose_controls(),
            conversation_id=self._request.conversation_id,
        )
        response = await self._ask(question)
        self.origins.append(response.metadata.origin)
        text = _shorten(response.text.strip(), self.tokens)
        if not text:
            raise ConverseError(
                detail=f"{self._descriptor} gave an empty summary of the oldest turns.",
                remedy='Drop them instead (window = "drop"), or begin a new conversation.',
                stage=Stage.DECODE,
            )
        self.text = text

    def _compose_controls(self) -> dict[str, Any]:
        attributes = self._descriptor.attributes
        reasons = attributes.access_capability("supports_reasoning") is not Capability.NO
        if attributes.access_control("max_tokens") is None or reasons:
            return {}  # reasoning could spend all tokens
        return {"max_tokens": self.tokens}


def survey_files(canisters: Sequence[AnyCanister]) -> tuple[str, ...]:
    """Return the names of the files in messages, and in arguments of calls, newest first."""
    names: dict[str, None] = {}
    for canister in reversed(canisters):
        if isinstance(canister, DocumentCanister):
            part = canister.summarizes
            names.update(dict.fromkeys(part.files if part else filter(None, [canister.title])))
        elif isinstance(canister, InvocationCanister):
            names.update(dict.fromkeys(_list_file_arguments(canister)))
        for item in media_of([canister]):
            title = item.title if isinstance(item, FileContent) else None
            names.update(dict.fromkeys(filter(None, [item.name or title])))
    return tuple(names)[:_MAX_FILES]


def _limit_files(names: Sequence[str], room: int) -> Iterator[str]:
    """Yield the names that fit into their part of the room; arguments may have any length."""
    remaining = min(_MAX_FILE_TOKENS, room // 8)
    for name in names:
        size = count_text(name).tokens + 1
        if size <= remaining:
            remaining -= size
            yield name


def _list_file_arguments(call: InvocationCanister) -> list[str]:
    try:
        arguments = call.parse_arguments() if call.form == "json" else {}
    except ParseError:
        return []
    values = [value for name, value in arguments.items() if name.lower() in _FILE_ARGUMENTS]
    return [value for value in values if isinstance(value, str) and value]


def _divide(canisters: Sequence[AnyCanister], tokens: int) -> Iterator[str]:
    """Yield the turns as texts that fit into one call; a long message is divided."""
    chunk, size = "", 0
    for text in chain.from_iterable(_split(_write(each), tokens) for each in canisters):
        more = count_text(text).tokens
        if chunk and size + more > tokens:
            yield chunk
            chunk, size = "", 0
        chunk += f"{text}\n\n"
        size += more
    if chunk:
        yield chunk


def _split(text: str, tokens: int) -> Iterator[str]:
    """Yield a text in pieces of about so many tokens, divided after spaces if possible."""
    pieces = -(-count_text(text).tokens // tokens) or 1
    length = -(-len(text) // pieces) or 1
    start = 0
    while len(text) - start > length:
        end = start + length
        end = text.rfind(" ", start + length // 2, end) + 1 or end
        yield text[start:end]
        start = end
    yield text[start:]


def _shorten(text: str, tokens: int) -> str:
    """Return a text with at most so many tokens, by the estimate."""
    count = count_text(text).tokens
    return text if count <= tokens else f"{text[: len(text) * tokens // count]} […]"


def _write(canister: AnyCanister) -> str:
    text = text_of(canister)
    if isinstance(canister, InvocationCanister):
        text = f"{canister.name}({canister.arguments}) {text}".rstrip()
    media = ", ".join(f"[{item.type} {item.name or ''}]" for item in media_of([canister]))
    return f"{canister.role}: {text} {media}".rstrip()
