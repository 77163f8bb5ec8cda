"""Google's cached contents: created, listed, renewed, deleted, and used by requests."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import attrs

from vibe_llms.testing.simulator.prefix_caches import MIN_TOKENS
from vibe_llms.testing.simulator.prompts import SimulatedPrompt, count_request_tokens
from vibe_llms.testing.simulator.protocols import SimulatedRequest
from vibe_llms.testing.simulator.refusals import SimulatedRefusal, require

_FIELDS: Final = ("contents", "systemInstruction", "tools", "toolConfig")
_USUAL_SECONDS: Final = 3600


def answer_cached_contents(purpose: str, request: SimulatedRequest) -> dict[str, Any]:
    """Answer a request about cached contents.

    Args:
        purpose: ``cached_contents`` creates or lists them; ``cached_content`` is about one of them.
    """
    contents = _access_contents(request)
    if purpose == "cached_list":
        valid = [_describe(each) for each in contents.values() if each["end"] > request.now]
        return {"cachedContents": valid} if valid else {}
    if purpose == "cached_create":
        return _describe(_create(request, contents))
    content = find_content(request, f"cachedContents/{request.names['content']}")
    if purpose == "cached_delete":
        del contents[request.names["content"]]
        return {}
    if purpose == "cached_change":
        content["end"] = request.now + _read_seconds(request.body)
    return _describe(content)


def find_content(request: SimulatedRequest, name: str) -> dict[str, Any]:
    """Return a content that has not expired. Raises SimulatedRefusal."""
    content: dict[str, Any] | None = _access_contents(request).get(name.rpartition("/")[2])
    if content is None or content["end"] <= request.now:
        message = "CachedContent not found (or permission denied)"
        raise SimulatedRefusal(403, "permission", message)
    return content


def use_cached_content(body: Mapping[str, Any], request: SimulatedRequest) -> dict[str, Any]:
    """Return the body of a request with the cached content that it names. Refuse invalid uses."""
    content = find_content(request, str(body["cachedContent"]))
    for field in ("systemInstruction", "tools", "toolConfig"):
        require(
            field not in body,
            "CachedContent can not be used with GenerateContent request setting "
            "system_instruction, tools or tool_config.",
        )
    model = f"{_find_parent(request)}models/{request.names['model']}"
    require(content["model"] == model, f"Model used by GenerateContent request ({model}) and "
            f"CachedContent ({content['model']}) has to be the same.")  # fmt: skip
    fields = content["fields"]
    contents = [*fields.get("contents", ()), *(body.get("contents") or ())]
    return {**body, **fields, "contents": contents}


def count_cached_content(prompt: SimulatedPrompt, request: SimulatedRequest) -> SimulatedPrompt:
    """Add the tokens of the cached content, which are reported as read."""
    name = request.body.get("cachedContent")
    if name is None:
        return prompt
    tokens: int = find_content(request, str(name))["tokens"]
    return attrs.evolve(prompt, tokens=max(prompt.tokens, tokens), cached=tokens)


def _access_contents(request: SimulatedRequest) -> dict[str, Any]:
    contents: dict[str, Any] = request.stored.setdefault("cached_contents", {})
    return contents


def _create(request: SimulatedRequest, contents: dict[str, Any]) -> dict[str, Any]:
    body = request.body
    require(body.get("model"), "* CreateCachedContentRequest.cached_content.model: required\n")
    fields = {name: body[name] for name in _FIELDS if name in body}
    tokens = count_request_tokens(*fields.values())
    require(
        tokens >= MIN_TOKENS,
        f"Cached content is too small. total_token_count={tokens}, "
        f"min_total_token_count={MIN_TOKENS}",
    )
    identity = request.mint("", 12).lower()
    contents[identity] = content = {
        "name": f"{request.path[1:].partition('/')[2]}/{identity}",
        "model": body["model"],
        "displayName": body.get("displayName", ""),
        "fields": fields,
        "tokens": tokens,
        "start": request.now,
        "end": request.now + _read_seconds(body),
    }
    return content


def _find_parent(request: SimulatedRequest) -> str:
    """Return the beginning of a model's name: on Vertex AI, its project and location."""
    before = request.path[1:].partition("/")[2].partition("models/")[0]
    return before


def _read_seconds(body: Mapping[str, Any]) -> int:
    return int(float(str(body.get("ttl", f"{_USUAL_SECONDS}s")).rstrip("s")))


def _describe(content: Mapping[str, Any]) -> dict[str, Any]:
    start, end = (
        datetime.fromtimestamp(content[name], UTC).isoformat().replace("+00:00", "Z")
        for name in ("start", "end")
    )
    named = {name: content[name] for name in ("name", "model", "displayName")}
    usage = {"totalTokenCount": content["tokens"]}
    return {**named, "createTime": start, "updateTime": start, "expireTime": end,
            "usageMetadata": usage}  # fmt: skip
