"""Completions of prompts by the simulated vendors: OpenAI's older call, and Mistral's.

The completion of a prompt is its last word, repeated; with a suffix, the word that the suffix
begins with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from vibe_llms.testing.simulator.credentials import check_model
from vibe_llms.testing.simulator.protocols import SimulatedFrame, SimulatedRequest
from vibe_llms.testing.simulator.refusals import require

_MAX_LOGPROBS: Final = 5
_MAX_CHOICES: Final = 128


def compose_completion(prompt: str, suffix: str = "") -> str:
    """Return the completion of a prompt."""
    words = suffix.split()[:1] or prompt.split()[-1:]
    return f" {words[0]} {words[0]}"


def complete(request: SimulatedRequest) -> Mapping[str, Any] | Iterator[SimulatedFrame]:
    """Answer OpenAI's call. Raises SimulatedRefusal."""
    body = request.body
    check_model(str(body.get("model")))
    prompts = _read_prompts(body.get("prompt"))
    count = _read_count(body, "n")
    candidates = _read_count(body, "best_of") if body.get("best_of") is not None else count
    require(candidates >= count, "best_of must be at least n.", param="best_of")
    is_streamed = body.get("stream") is True
    require(not is_streamed or candidates == count, "best_of > n cannot be streamed.")
    logprobs = body.get("logprobs")
    require(
        logprobs is None or (isinstance(logprobs, int) and 0 <= logprobs <= _MAX_LOGPROBS),
        "logprobs must be at most 5.",
        param="logprobs",
    )
    texts = [
        (prompt if body.get("echo") else "") + compose_completion(prompt, body.get("suffix") or "")
        for prompt in prompts
        for _ in range(count)
    ]
    taken = sum(len(prompt.split()) for prompt in prompts)
    usage = _write_usage(taken, 2 * len(prompts) * candidates)
    head = {
        "id": request.mint("cmpl-", 24),
        "object": "text_completion",
        "created": request.now,
        "model": body["model"],
    }
    if is_streamed:
        return _stream(head, texts, usage, body)
    choices = [
        {
            "text": text,
            "index": index,
            "logprobs": None if logprobs is None else _write_logprobs(text),
            "finish_reason": "stop",
        }
        for index, text in enumerate(texts)
    ]
    return {**head, "choices": choices, "usage": usage}


def _stream(
    head: Mapping[str, Any], texts: list[str], usage: Mapping[str, int], body: Mapping[str, Any]
) -> Iterator[SimulatedFrame]:
    options = body.get("stream_options") or {}
    includes_usage = bool(options.get("include_usage"))
    extra = {"usage": None} if includes_usage else {}
    for index, text in enumerate(texts):
        pieces = text.split(" ")
        for place, piece in enumerate(pieces):
            is_last = place == len(pieces) - 1
            choice = {
                "text": piece if is_last else f"{piece} ",
                "index": index,
                "logprobs": None,
                "finish_reason": "stop" if is_last else None,
            }
            yield SimulatedFrame({**head, "choices": [choice], **extra})
    if includes_usage:
        yield SimulatedFrame({**head, "choices": [], "usage": usage})
    yield SimulatedFrame("[DONE]", ends=True)


def fill(request: SimulatedRequest) -> Mapping[str, Any] | Iterator[SimulatedFrame]:
    """Answer Mistral's call for the text before a suffix. Raises SimulatedRefusal."""
    body = request.body
    check_model(str(body.get("model")))
    for name in ("n", "best_of", "echo", "logprobs", "stream_options"):
        require(name not in body, f"Extra inputs are not permitted: {name}", param=name)
    [prompt] = _read_prompts(body.get("prompt"))
    text = compose_completion(prompt, body.get("suffix") or "")
    head = {"id": request.mint("", 32), "created": request.now, "model": body["model"]}
    usage = _write_usage(len(prompt.split()), 2)
    if body.get("stream") is True:
        return _stream_fill(head, text, usage)
    message = {"role": "assistant", "content": text, "tool_calls": None}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return {**head, "object": "chat.completion", "choices": [choice], "usage": usage}


def _stream_fill(
    head: Mapping[str, Any], text: str, usage: Mapping[str, int]
) -> Iterator[SimulatedFrame]:
    head = {**head, "object": "chat.completion.chunk"}
    for delta, reason in (
        ({"role": "assistant", "content": text}, None),
        ({"content": ""}, "stop"),
    ):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        yield SimulatedFrame({**head, "choices": [choice], **({"usage": usage} if reason else {})})
    yield SimulatedFrame("[DONE]", ends=True)


def _read_prompts(value: Any) -> list[str]:
    prompts = [value] if isinstance(value, str) else value
    valid = isinstance(prompts, list) and prompts and all(isinstance(each, str) for each in prompts)
    require(valid, "'$.prompt' is invalid.", param="prompt")
    return list(prompts)


def _read_count(body: Mapping[str, Any], name: str) -> int:
    value = body.get(name, 1)
    require(isinstance(value, int) and 1 <= value <= _MAX_CHOICES, f"Invalid {name}.", param=name)
    return int(value)


def _write_logprobs(text: str) -> dict[str, Any]:
    tokens = text.split(" ")
    return {
        "tokens": tokens,
        "token_logprobs": [-0.5] * len(tokens),
        "top_logprobs": [{token: -0.5} for token in tokens],
        "text_offset": list(range(len(tokens))),
    }


def _write_usage(taken: int, made: int) -> dict[str, int]:
    return {"prompt_tokens": taken, "completion_tokens": made, "total_tokens": taken + made}
