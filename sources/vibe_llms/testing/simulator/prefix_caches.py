"""Prompt caches of the simulated vendors: prefixes that were sent before are reported as read.

A request is a list of units: tools, instructions, and the parts of its messages. A prefix is
identified by a digest of its units, without marks. Anthropic keeps the prefixes that are marked;
OpenAI keeps every prefix, and reports what it writes for models that accept breakpoints.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Final

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.testing.simulator.prompts import SimulatedPrompt, count_request_tokens
from vibe_llms.testing.simulator.protocols import SimulatedRequest
from vibe_llms.testing.simulator.refusals import require

MIN_TOKENS: Final = 1024
"""Minimum tokens of a cached prefix."""

WITH_BREAKPOINTS: Final = re.compile(r"gpt-(5\.[6-9]|[6-9])")
"""OpenAI's models that accept breakpoints."""

_MARKS: Final = ("cache_control", "prompt_cache_breakpoint")
_LIFETIMES: Final = {"5m": 300, "1h": 3600, "30m": 1800, "12h": 43_200}
_STEP: Final = 128
"""OpenAI reports cached tokens in multiples of this number, unless they end at a breakpoint."""

_MAX_MARKS: Final = 4


@frozen
class _Unit:
    """A part of a prompt.

    Attributes:
        digest: Digest of the prompt up to the end of this unit.
        tokens: Tokens of the prompt up to the end of this unit.
        lifetime: Seconds for which a mark keeps the prefix; 0 without a mark.
    """

    digest: str
    tokens: int
    lifetime: int


def check_cache_marks(body: Mapping[str, Any]) -> None:
    """Refuse marks that Anthropic would refuse."""
    marks = [mark for _, mark in _walk_messages_body(body) if mark is not None]
    count = len(marks)
    require(
        count <= _MAX_MARKS,
        f"A maximum of {_MAX_MARKS} blocks with cache_control may be provided. Found {count}.",
    )
    has_short = False
    for mark in marks:
        is_long = isinstance(mark, Mapping) and mark.get("ttl") == "1h"
        require(
            not (is_long and has_short),
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block",
        )
        has_short = has_short or not is_long


def check_breakpoints(body: Mapping[str, Any]) -> None:
    """Refuse breakpoints and lifetimes for OpenAI's models that do not have them."""
    model = str(body.get("model"))
    if not model.startswith("gpt-") or WITH_BREAKPOINTS.match(model):
        return
    text = json.dumps(body)
    for name in ("prompt_cache_options", "prompt_cache_breakpoint"):
        require(f'"{name}"' not in text, f"Unsupported parameter: '{name}' with this model.")


def cache_marked_prefixes(prompt: SimulatedPrompt, request: SimulatedRequest) -> SimulatedPrompt:
    """Read and write the prefixes that Anthropic's marks end."""
    units = _measure(prompt.model, _walk_messages_body(request.body))
    marked = [unit for unit in units if unit.lifetime and unit.tokens >= MIN_TOKENS]
    if not marked:
        return prompt
    prefixes = _access_prefixes(request)
    # The vendor looks for earlier prefixes before the last mark.
    known = [unit for unit in units if unit.tokens <= marked[-1].tokens]
    read = _find_read(known, prefixes, request.now)
    written = written_long = 0
    before = read
    for unit in marked:
        prefixes[unit.digest] = (request.now + unit.lifetime, unit.lifetime)
        if unit.tokens > before:
            if unit.lifetime > _LIFETIMES["5m"]:
                written_long += unit.tokens - before
            else:
                written += unit.tokens - before
            before = unit.tokens
    return attrs.evolve(
        prompt,
        tokens=max(prompt.tokens, units[-1].tokens),
        cached=read,
        written=written,
        written_long=written_long,
    )


def cache_all_prefixes(prompt: SimulatedPrompt, request: SimulatedRequest) -> SimulatedPrompt:
    """Read and write prefixes as OpenAI does without being asked."""
    if prompt.tokens < MIN_TOKENS:
        return prompt
    body = request.body
    seed = f"{prompt.model} {body.get('prompt_cache_key', '')}"
    units = _measure(seed, _walk_openai_body(body))
    prefixes = _access_prefixes(request)
    read = _find_read(units, prefixes, request.now)
    read = min(read, prompt.tokens)
    if not any(unit.tokens == read and unit.lifetime for unit in units):
        read -= read % _STEP
    read = read if read >= MIN_TOKENS else 0
    lifetime = _LIFETIMES["30m"] if WITH_BREAKPOINTS.match(prompt.model) else 600
    for unit in units:
        seconds = unit.lifetime or lifetime
        prefixes[unit.digest] = (request.now + seconds, seconds)
    written = prompt.tokens - read if WITH_BREAKPOINTS.match(prompt.model) else 0
    return attrs.evolve(prompt, cached=read, written=written)


def _access_prefixes(request: SimulatedRequest) -> MutableMapping[str, tuple[int, int]]:
    """Return the known prefixes: when each ends, and its lifetime."""
    prefixes: MutableMapping[str, tuple[int, int]] = request.stored.setdefault("prefixes", {})
    return prefixes


def _find_read(units: list[_Unit], prefixes: MutableMapping[str, tuple[int, int]], now: int) -> int:
    """Return the tokens of the longest known prefix, and renew it."""
    for unit in reversed(units):
        end, lifetime = prefixes.get(unit.digest, (0, 0))
        if end > now:
            prefixes[unit.digest] = (now + lifetime, lifetime)
            return unit.tokens
    return 0


def _measure(seed: str, parts: Iterator[tuple[Any, Any]]) -> list[_Unit]:
    units: list[_Unit] = []
    digest, tokens = hashlib.sha256(seed.encode()), 0
    for part, mark in parts:
        digest.update(json.dumps(_remove_marks(part), sort_keys=True).encode())
        tokens += count_request_tokens(part) - count_request_tokens()
        lifetime = 0
        if mark is not None:
            ttl = mark.get("ttl") if isinstance(mark, Mapping) else None
            lifetime = _LIFETIMES.get(str(ttl), _LIFETIMES["5m"])
        units.append(_Unit(digest.hexdigest(), tokens, lifetime))
    return units


def _walk_messages_body(body: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the units of a request to Anthropic, each with its mark."""
    units = list(_walk_blocks(body))
    whole = body.get("cache_control")
    if whole is not None and units:
        part, mark = units[-1]
        units[-1] = (part, whole if mark is None else mark)
    return iter(units)


def _walk_blocks(body: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    for tool in body.get("tools") or ():
        yield tool, tool.get("cache_control")
    system = body.get("system")
    for block in [{"text": system}] if isinstance(system, str) else system or ():
        yield {"role": "system", **block}, block.get("cache_control")
    for message in body.get("messages") or ():
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or ()
        for block in blocks:
            inner = block.get("content")
            for part in inner if isinstance(inner, list) else ():
                if isinstance(part, Mapping) and part.get("cache_control") is not None:
                    yield {"role": message.get("role"), "part": part}, part["cache_control"]
            yield {"role": message.get("role"), **block}, block.get("cache_control")


def _walk_openai_body(body: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the units of a request to OpenAI, each with its breakpoint."""
    yield [body.get("tools"), body.get("instructions")], None
    items = body.get("messages") or body.get("input") or ()
    for item in [{"content": items}] if isinstance(items, str) else items:
        content = item.get("content")
        rest = {name: value for name, value in item.items() if name not in ("content", "id")}
        yield rest, None
        for part in content if isinstance(content, list) else [{"text": content}]:
            text = {name: value for name, value in part.items() if name in ("text", "image_url")}
            yield text, part.get("prompt_cache_breakpoint")


def _remove_marks(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _remove_marks(each) for key, each in value.items() if key not in _MARKS}
    return [_remove_marks(each) for each in value] if isinstance(value, list) else value
