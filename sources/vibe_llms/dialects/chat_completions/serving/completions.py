"""OpenAI's older call, ``POST /completions``: prompts in place of a conversation.

Each prompt is treated as a chat with one message. This module also has the names of a dialect that
serve Mistral's ``POST /fim/completions``, whose answer is that of a chat.

Source: types of the packages openai 3.57.0 and mistralai 3.7.0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from vibe_llms.dialects import client_answers
from vibe_llms.dialects.chat_completions.calling.errors import produce_error
from vibe_llms.dialects.chat_completions.quirks import PROTOCOL
from vibe_llms.dialects.chat_completions.serving import requests
from vibe_llms.dialects.chat_completions.serving.errors import nativize_error
from vibe_llms.dialects.chat_completions.serving.responses import nativize_response
from vibe_llms.dialects.chat_completions.serving.streams import StreamWriter
from vibe_llms.dialects.extras import without
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.openai_serving import compose_openai_error
from vibe_llms.dialects.prefix_cache import ClientPrefixes
from vibe_llms.dialects.serving import nativize_openai_usage, refuse_invalid, report_stop_reason
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentStartedEvent,
    ResponseFailedEvent,
    ResponseFinishedEvent,
    StreamEvent,
)
from vibe_llms.exceptions import ConverseError, RequestError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import Origin, StopReason, Usage
from vibe_llms.messages.identities import access_now, produce_identity
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request, Response
from vibe_llms.messages.texts import BOUNDARY
from vibe_llms.messages.views import add_usages
from vibe_llms.models.attributes import ModelAttributes

__all__ = [
    "PROTOCOL",
    "CompletionCall",
    "CompletionWriter",
    "StreamWriter",
    "nativize_completion",
    "nativize_error",
    "nativize_response",
    "normalize_completion",
    "normalize_request",
    "produce_error",
    "read_prompts",
]

_OTHER_FIELDS: Final = ("best_of", "echo", "logprobs", "messages", "n", "prompt", "suffix", "tools")
"""Fields that are read here, and fields of a chat that this call does not have."""

_FINISH_REASONS: Final = {
    StopReason.FILTERED: "content_filter",
    StopReason.REFUSED: "content_filter",
    StopReason.FAILED: "length",
    StopReason.INTERRUPTED: "length",
    StopReason.LIMIT: "length",
    StopReason.OVERFLOW: "length",
    StopReason.PAUSED: "length",
}
"""This call's name of each stop reason; ``stop`` for any other."""

_UNDERSTOOD: Final = {
    "content_filter": StopReason.FILTERED,
    "length": StopReason.LIMIT,
    "stop": StopReason.ANSWERED,
}
_DONE: Final = b"data: [DONE]\n\n"
_encode: Final = msgspec.json.Encoder().encode

_FILLING: Final = (
    "Continue the user's text. Your answer is inserted directly between this text and the text "
    "below, so write only what belongs there, without explanations and code fences.\n\n"
    "The text after your answer:\n"
)
"""Instruction for models that converse, if there is a suffix."""


@frozen(kw_only=True)
class CompletionCall:
    """A call, with a request for each choice.

    Attributes:
        prompts: The prompts.
        count: Number of choices for each prompt.
        requests: A request for each prompt.
        echo: Whether the text of a choice begins with its prompt.
    """

    prompts: tuple[str, ...]
    count: int
    requests: tuple[Request, ...]
    echo: bool = False

    def list_choices(self) -> list[tuple[str, Request]]:
        """Return the text before each choice, and its request."""
        return [
            (prompt if self.echo else "", request)
            for prompt, request in zip(self.prompts, self.requests, strict=True)
            for _ in range(self.count)
        ]


@refuse_invalid("The request", "OpenAI's /v1/completions")
def normalize_completion(
    native: Mapping[str, Any], *, fills: bool = False
) -> Translation[CompletionCall]:
    """Return a client's call.

    Args:
        fills: Whether the model continues the prompt up to the suffix; by default it converses.

    Raises:
        RequestError: It is invalid.
    """
    ledger = Ledger(protocol=PROTOCOL)
    count = _read_count(native, "n")
    if _read_count(native, "best_of") > count:
        ledger.drop("best_of", "the probabilities of answers cannot be compared")
    if native.get("logprobs") is not None:
        ledger.drop("logprobs", "the probabilities of tokens are unknown")
    prompts = read_prompts(native)
    translations = [_compose_request(native, prompt, fills=fills) for prompt in prompts]
    losses = (*translations[0].losses, *ledger.losses)
    call = CompletionCall(
        prompts=prompts,
        count=count,
        requests=tuple(each.value for each in translations),
        echo=bool(native.get("echo")),
    )
    return Translation(call, losses)


@refuse_invalid("The request", "Mistral's /v1/fim/completions")
def normalize_request(
    native: Mapping[str, Any],
    attributes: ModelAttributes | None = None,
    cache: ClientPrefixes | None = None,
) -> Translation[Request]:
    """Return the request of a client that sends one prompt.

    Args:
        attributes: The model's attributes; by default all common controls are known.
        cache: Unused: a prompt is too short for the cache of earlier requests.

    Raises:
        RequestError: It is invalid.
    """
    prompts = read_prompts(native)
    if len(prompts) > 1:
        raise _refuse_prompt("Expected one prompt.")
    return _compose_request(native, prompts[0], attributes)


def read_prompts(native: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the prompts of a call: one, or a list. Raises RequestError."""
    prompt = native.get("prompt")
    prompts = [prompt] if isinstance(prompt, str) else prompt
    if not isinstance(prompts, list) or not prompts:
        raise _refuse_prompt("Expected a text or a list of texts.")
    if not all(isinstance(each, str) for each in prompts):
        raise _refuse_prompt("Tokens cannot be translated for this model.")
    for each in prompts:
        if not each.strip():
            raise _refuse_prompt("A prompt is blank.")
    return tuple(prompts)


def _refuse_prompt(detail: str) -> RequestError:
    return RequestError(path="prompt", detail=detail, remedy="Send texts.")


def _read_count(native: Mapping[str, Any], name: str) -> int:
    value = native.get(name)
    if value is None:
        return 1
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        detail = f"Invalid number {value!r}."
        raise RequestError(path=name, detail=detail, remedy="Use a positive integer.")
    return value


def _compose_request(
    native: Mapping[str, Any],
    prompt: str,
    attributes: ModelAttributes | None = None,
    *,
    fills: bool = False,
) -> Translation[Request]:
    """Return the request of a chat for a prompt."""
    ledger = Ledger(protocol=PROTOCOL)
    messages = [{"role": "user", "content": prompt}]
    suffix = native.get("suffix")
    if suffix and not isinstance(suffix, str):
        raise RequestError(path="suffix", detail="Expected a text.", remedy="Send a string.")
    if not fills:
        reason = "it is sent as a message, which a model may answer instead of continuing it"
        ledger.coerce("prompt", reason)
        if suffix:
            ledger.coerce("suffix", "an instruction asks for the text between the prompt and it")
            messages.insert(0, {"role": "system", "content": _FILLING + suffix})
    chat = {**without(native, *_OTHER_FIELDS), "messages": messages}
    translated = requests.normalize_request(chat, attributes)
    return Translation(translated.value, (*ledger.losses, *translated.losses))


def nativize_completion(
    choices: Sequence[tuple[str, Response]], model: str
) -> Translation[JsonObject]:
    """Write the answer for a client.

    Args:
        choices: The text before each choice, and its response.
        model: The model's name for the client.
    """
    ledger = Ledger(protocol=PROTOCOL)
    written = []
    for index, (before, response) in enumerate(choices):
        ending = _write_ending(response, index, ledger)
        written.append({**ending, "text": before + response.text})
    body = {**_write_head(model), "choices": written}
    usage = add_usages(response.metadata.usage for _, response in choices)
    if usage is not None:
        body["usage"] = _write_usage(usage, ledger)
    return Translation(body, ledger.losses)


def _write_head(model: str) -> dict[str, Any]:
    return {
        "id": f"cmpl-{produce_identity()}",
        "object": "text_completion",
        "created": int(access_now().timestamp()),
        "model": model,
    }


def _write_ending(response: Response, index: int, ledger: Ledger) -> dict[str, Any]:
    """Return the end of a choice; record what its text does not have."""
    kinds = {content.type for canister in response.canisters for content in canister.content}
    for kind in sorted(kinds - {"text"}):
        ledger.drop(f"choices[{index}].{kind}", "the answer is only a text")
    return {**_write_choice(index), "finish_reason": _find_reason(response.metadata.origin, ledger)}


def _write_choice(index: int, text: str = "") -> dict[str, Any]:
    return {"text": text, "index": index, "logprobs": None, "finish_reason": None}


def _find_reason(origin: Origin, ledger: Ledger) -> str:
    reason = _FINISH_REASONS.get(origin.stop_reason, "stop")
    report_stop_reason(origin, reason, _UNDERSTOOD[reason], ledger)
    return reason


def _write_usage(usage: Usage, ledger: Ledger) -> dict[str, Any]:
    return nativize_openai_usage(
        usage, input_name="prompt_tokens", output_name="completion_tokens", ledger=ledger
    )


class CompletionWriter(client_answers.StreamWriter):
    """Writes the chunks of all choices, and the end mark.

    Choices may arrive at the same time; each chunk has the index of its choice.
    """

    ending = b"\n\n" + _DONE

    def __init__(
        self, native: Mapping[str, Any], *, model: str, response_id: str | None = None
    ) -> None:
        super().__init__(native, model=model, response_id=response_id)
        options = native.get("stream_options")
        self._sends_usage = isinstance(options, Mapping) and bool(options.get("include_usage"))
        self._head = _write_head(model)
        self._texts: set[tuple[int, int]] = set()  # choices and indices of their texts
        self._last: dict[int, int] = {}  # by choice: the index of the text before
        self._usages: list[Usage | None] = []

    def begin(self, choice: int, text: str) -> bytes:
        """Return the first chunk of a choice, with the echo of its prompt."""
        return self._frame(_write_choice(choice, text)) if text else b""

    def write(self, event: StreamEvent) -> bytes:
        """Return the frames for an event of the only choice."""
        return self.write_event(0, event)

    def write_event(self, choice: int, event: StreamEvent) -> bytes:
        """Return the frames for an event of a choice."""
        match event:
            case ContentDeltaEvent() if (choice, event.index) in self._texts:
                text = self._separate(choice, event.index, event.text)
                return self._frame(_write_choice(choice, text)) if text else b""
            case ContentStartedEvent(kind="text"):
                self._texts.add((choice, event.index))
            case ResponseFinishedEvent() if event.response is not None:
                ledger = Ledger(protocol=PROTOCOL)
                ending = _write_ending(event.response, choice, ledger)
                self.losses += ledger.losses
                self._usages.append(event.response.metadata.usage)
                return self._frame(ending)
            case ResponseFailedEvent():
                return self.fail(event.error)
            case _:
                pass
        return b""

    def _separate(self, choice: int, index: int, text: str) -> str:
        """Return a piece, after an empty line if it begins another text."""
        last = self._last.get(choice, index)
        if text:
            self._last[choice] = index
        return text if last == index or not text else BOUNDARY + text

    def finish(self) -> bytes:
        """Return the last chunks, after all choices."""
        usage = add_usages(self._usages)
        if not self._sends_usage or usage is None:
            return _DONE
        ledger = Ledger(protocol=PROTOCOL)
        chunk = {**self._head, "choices": [], "usage": _write_usage(usage, ledger)}
        self.losses += ledger.losses
        return b"data: %b\n\n%b" % (_encode(chunk), _DONE)

    def fail(self, error: ConverseError) -> bytes:
        """Return the frames that report an error in the middle of a stream, and end it."""
        problem = compose_openai_error(error, conversation_field="prompt", status=None)
        return b"data: %b\n\n" % _encode({"error": problem})

    def _frame(self, choice: Mapping[str, Any]) -> bytes:
        usage = {"usage": None} if self._sends_usage else {}
        return b"data: %b\n\n" % _encode({**self._head, "choices": [choice], **usage})
