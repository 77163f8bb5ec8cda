"""Answers from the cache of a model's table.

The key of a conversation is a hash of the normalized request (:meth:`.Request.digest`) and of all
else that changes the answer: whether it is a stream, fields that only the protocol has, and the
forwarded headers. The key of another call, such as an embedding, is a hash of its fields.
"""

from __future__ import annotations

import hashlib
import logging
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import attrs
import msgspec

from vibe_llms.daemons.bodies import decode_body, perform_sized
from vibe_llms.daemons.gateway.answer_cache import AnswerRecorder, ModelCache, StoredAnswer
from vibe_llms.daemons.gateway.calls import GatewayCall
from vibe_llms.daemons.gateway.interactions import keeps_interaction
from vibe_llms.daemons.gateway.passthrough import choose_headers
from vibe_llms.daemons.gateway.responses.storing import needs_storage
from vibe_llms.daemons.gateway.translating import STRICT_HEADER
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.contents import TextualContent
from vibe_llms.messages.requests import Request
from vibe_llms.models.genera import Genus
from vibe_llms.providers.call_caching import digest_call
from vibe_llms.retrieval.passages import PASSAGE_CHARACTERS

if TYPE_CHECKING:
    from vibe_llms.daemons.gateway.similar_questions import SimilarQuestions

CACHE_HEADER: Final = "x-vibe-cache"
SIMILARITY_HEADER: Final = "x-vibe-cache-similarity"

_IGNORED_HEADERS: Final = frozenset({"idempotency-key"})
"""Forwarded headers that do not change the answer."""

_DIGESTED: Final = frozenset(
    {
        "contents",
        "input",
        "instructions",
        "messages",
        "model",
        "request",
        "stream",
        "system",
        "systemInstruction",
        "tools",
    }
)
"""Fields of any protocol that are part of the request's digest or of its route."""


_LOGGER: Final = logging.getLogger("vibe_llms.daemons")


@frozen(kw_only=True)
class RequestKeys:
    """Keys of a request in the cache.

    Attributes:
        exact: Equal for equal requests.
        scope: Equal for requests that differ only in the last question; empty if the request has no
            question that can be compared.
        question: The text of that question.
    """

    exact: str
    scope: str = ""
    question: str = ""


async def answer_from_cache(call: GatewayCall, answers: ModelCache) -> None:
    """Answer from the cache, or share the answer of an equal request that is under way.

    Stored responses (see :func:`.storing.store`) have unique ids and are never cached.
    """
    is_stored = call.face.is_stored and needs_storage(call.request)
    is_stored = is_stored or keeps_interaction(call)
    may_store = "no-store" not in call.http.headers.get("cache-control", "").lower()
    keys = None
    if not is_stored and may_store:
        compose = partial(_compose_keys, call, with_scope=answers.questions is not None)
        keys = await perform_sized(call.request.body, compose)
    if keys is None:
        await call.proceed()
    else:
        await _answer(call, answers, keys)


async def _answer(call: GatewayCall, answers: ModelCache, keys: RequestKeys) -> None:
    is_bypassed = "no-cache" in call.http.headers.get("cache-control", "").lower()
    added = {CACHE_HEADER: "miss"}
    answer = None if is_bypassed else answers.find(keys.exact)
    if answer is None:
        answer = await answers.await_flight(keys.exact)
    if answer is not None:
        added = {CACHE_HEADER: "hit"}
    vector = None
    if answer is None and answers.questions is not None and keys.scope:
        vector = await _embed(call, keys.question)
        if vector is not None and not is_bypassed:
            answer, added = await _find_similar(answers, answers.questions, keys.scope, vector)
    call.record.cache = added[CACHE_HEADER]
    call.http.added = {**call.http.added, **added}
    if answer is not None:
        call.record.sent_bytes = answer.size_bytes
        await answer.send(call.http)
        return
    await _record(call, answers, keys.exact)
    if answers.questions is not None and vector is not None and answers.find(keys.exact):
        await answers.questions.add(keys.scope, vector, keys.exact)


async def _embed(call: GatewayCall, question: str) -> bytes | None:
    """Return the vector of a question; ``None`` if the embedder fails, which is logged."""
    try:
        gateway = call.gateway
        return await gateway.upstreams.embed(question, gateway.call_listeners)
    except ConverseError as error:
        _LOGGER.warning("The cache cannot compare questions: %s", error)
        return None


async def _find_similar(
    answers: ModelCache, questions: SimilarQuestions, scope: str, vector: bytes
) -> tuple[StoredAnswer | None, dict[str, str]]:
    """Return the answer of a similar question that has not expired, and the added headers."""
    found = await questions.find(scope, vector)
    if found is not None:
        key, similarity = found
        answer = answers.find(key)
        if answer is not None:
            return answer, {CACHE_HEADER: "similar", SIMILARITY_HEADER: f"{similarity:.4f}"}
        await questions.drop(key)
    return None, {CACHE_HEADER: "miss"}


async def _record(call: GatewayCall, answers: ModelCache, key: str) -> None:
    """Perform the following stages, and store their answer."""
    call.recorder = AnswerRecorder(call.face, answers.max_bytes)
    end_flight = answers.begin_flight(key)
    answer: StoredAnswer | None = None
    try:
        await call.proceed()
        if not call.record.error:
            answer = call.recorder.finish(is_streamed=call.request.streaming)
        if answer is not None:
            answers.add(key, answer)
    finally:
        if end_flight is not None:
            end_flight(answer)


def _compose_keys(call: GatewayCall, *, with_scope: bool) -> RequestKeys | None:
    """Return the cache keys of a request; ``None`` if it is invalid.

    Args:
        with_scope: Whether similar questions may share an answer.
    """
    face, request = call.face, call.request
    if face.genus is not Genus.CONVERSER or face.has_prompts:
        return _compose_call_keys(call)
    try:
        native = decode_body(request.body)
        normalized = face.dialect.normalize_request(native)
        digest = normalized.value.digest()
    except ConverseError:
        return None
    other_fields = sorted((name, value) for name, value in native.items() if name not in _DIGESTED)
    # The digest does not contain parts that were lost, so requests that differ in them look equal.
    body_hash = hashlib.sha256(request.body).hexdigest() if normalized.losses else ""
    strict = call.http.headers.get(STRICT_HEADER, "")
    common = (
        face.name,
        request.streaming,
        other_fields,
        body_hash,
        strict,
        _select_headers(call),
    )
    exact = _digest(digest, common)
    question = _read_question(normalized.value) if with_scope and not body_hash else ""
    if not question:
        return RequestKeys(exact=exact)
    canisters = (*normalized.value.canisters[:-1], UserCanister(content="?"))
    rest = attrs.evolve(normalized.value, canisters=canisters)
    return RequestKeys(exact=exact, scope=_digest(rest.digest(), common), question=question)


def _select_headers(call: GatewayCall) -> list[tuple[str, str]]:
    """Return the forwarded headers that may change the answer."""
    headers = choose_headers(call.face, call.http)
    return sorted(pair for pair in headers.items() if pair[0] not in _IGNORED_HEADERS)


def _compose_call_keys(call: GatewayCall) -> RequestKeys | None:
    """Return the key of a call of another genus; ``None`` if its body is invalid.

    Such calls are equal if they have the same path and the same fields, in any order.
    """
    http, fields = call.http, call.request.fields
    headers = _select_headers(call)
    if fields is None:
        try:
            body: object = msgspec.json.encode(decode_body(call.request.body), order="sorted")
        except ConverseError:
            return None
    else:
        body = sorted(fields, key=itemgetter(0))  # the boundary is random
        headers = [pair for pair in headers if pair[0] != "content-type"]
    strict = http.headers.get(STRICT_HEADER, "")
    query = http.scope["query_string"].decode("latin-1")
    key = digest_call((http.path, query, strict), (body, tuple(headers)))
    return RequestKeys(exact=key)


def _digest(request_digest: str, common: tuple[object, ...]) -> str:
    return hashlib.sha256(repr((request_digest, common)).encode()).hexdigest()


def _read_question(request: Request) -> str:
    """Return the text of the last message, if it is the user's and has nothing else.

    Of a text that is longer than a passage, embedders may ignore the end: texts that differ only
    there would have equal vectors, so the result is empty.
    """
    last = request.canisters[-1] if request.canisters else None
    if not isinstance(last, UserCanister):
        return ""
    texts = [each.text for each in last.content if isinstance(each, TextualContent)]
    question = "\n".join(texts).strip() if len(texts) == len(last.content) else ""
    return question if len(question) <= PASSAGE_CHARACTERS else ""
