"""Body of a request.

The path names the model and decides whether the answer is streamed; the body does neither.
"""

from __future__ import annotations

from typing import Any, Final

from vibe_llms.dialects.broken_requests import explain_missing_message
from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.generate_content.calling.invocations import (
    nativize_schema,
    restore_schema,
)
from vibe_llms.dialects.generate_content.quirks import PROTOCOL
from vibe_llms.dialects.invocations import allows_any_object
from vibe_llms.dialects.request_writing import BodyDraft, RequestWriter


def _compose_body(draft: BodyDraft) -> dict[str, Any]:
    parts, schema = draft.parts, draft.request.schema
    if schema is not None and allows_any_object(schema):
        draft.ledger.coerce(
            "schema", "the vendor is asked for any JSON, as the schema allows any object"
        )
    body: dict[str, Any] = {**parts.messages, **parts.invocations}
    for part in (parts.controls, nativize_schema(schema), draft.extras):
        body = merge(body, part)
    if not body.get("contents"):  # instructions alone are not a question
        raise explain_missing_message("canisters")
    return restore_schema(body, schema)


_WRITER: Final = RequestWriter(protocol=PROTOCOL, compose_body=_compose_body)
nativize_request = _WRITER.nativize_request
produce_processors = _WRITER.produce_processors
