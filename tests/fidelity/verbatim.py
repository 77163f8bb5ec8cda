"""Tells whether a request says again, word for word, what its vendor had answered."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

_UNSAID: Final = ("logprobs", "annotations", "refusal", "reasoning", "audio", "role", "citations")
"""Fields which say nothing where they are empty."""


def rename(answer: Mapping[str, Any], step: str) -> dict[str, Any]:
    """Returns an answer of the same vendor at another time: with other ids in it."""
    text = re.sub(
        r'("(?:id|call_id|tool_use_id|toolUseId)": ")', rf"\g<1>{step}_", json.dumps(answer)
    )
    renamed: dict[str, Any] = json.loads(text)
    return renamed


def find_missing(answer: Mapping[str, Any], body: Mapping[str, Any], protocol: str) -> list[Any]:
    """Returns what of an answer is not in a request, in order, as its vendor had said it."""
    said, told = _PLACES[protocol]
    wanted = [simplify(block) for block in said(answer)]
    there = [simplify(block) for block in told(body)]
    if not wanted or _contains(there, wanted):
        return []
    return [block for block in wanted if block not in there] or ["the order"]


def simplify(value: Any) -> Any:
    """Returns JSON without fields that say nothing."""
    if isinstance(value, list):
        return [simplify(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {
        name: simplify(each)
        for name, each in value.items()
        if each is not None and not (name in _UNSAID and not each)
    }


def _contains(there: Sequence[Any], wanted: Sequence[Any]) -> bool:
    size = len(wanted)
    return any(list(there[at : at + size]) == list(wanted) for at in range(len(there)))


def _tell_messages(body: Mapping[str, Any]) -> Iterator[Any]:
    for message in body["messages"]:
        if message["role"] == "assistant":
            yield from message["content"]


def _say_completion(answer: Mapping[str, Any]) -> Iterator[Any]:
    message = dict(answer["choices"][0]["message"])
    message.pop("annotations", None)  # which the protocol takes in answers only
    if isinstance(message.get("audio"), Mapping):
        message["audio"] = {"id": message["audio"]["id"]}
    yield _forget_positions(message)


def _tell_chat(body: Mapping[str, Any]) -> Iterator[Any]:
    for message in body["messages"]:
        if message["role"] == "assistant":
            yield _forget_positions(message)


def _forget_positions(message: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a message whose calls do not say at which place they stand: they stand there."""
    calls = [
        {name: value for name, value in call.items() if name != "index"}
        for call in message.get("tool_calls") or ()
    ]
    return {**message, "tool_calls": calls} if calls else dict(message)


def _tell_parts(body: Mapping[str, Any]) -> Iterator[Any]:
    for content in body["contents"]:
        if content["role"] == "model":
            yield from content["parts"]


def _tell_steps(body: Mapping[str, Any]) -> Iterator[Any]:
    for step in body["input"]:
        if step["type"] not in ("user_input", "function_result"):
            yield step


_Blocks = Callable[[Mapping[str, Any]], Any]
_PLACES: Final[Mapping[str, tuple[_Blocks, _Blocks]]] = {
    "messages": (lambda answer: answer["content"], _tell_messages),
    "bedrock": (lambda answer: answer["output"]["message"]["content"], _tell_messages),
    "responses": (lambda answer: answer["output"], lambda body: body["input"]),
    "chat_completions": (_say_completion, _tell_chat),
    "generate_content": (
        lambda answer: answer["candidates"][0]["content"]["parts"],
        _tell_parts,
    ),
    "interactions": (lambda answer: answer["steps"], _tell_steps),
    "ollama_chat": (lambda answer: [answer["message"]], _tell_chat),
}
"""From a protocol to what of an answer, and where of a request, is to be the same."""
