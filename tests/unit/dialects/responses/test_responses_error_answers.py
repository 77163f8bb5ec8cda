"""Clients of Responses get errors as those of Chat Completions do, except for one field name."""

from __future__ import annotations

from hypothesis import given

from strategies.messages import errors
from vibe_llms.dialects import responses
from vibe_llms.dialects.client_answers import classify
from vibe_llms.exceptions import ConverseError, RequestError


@given(errors)
def test_an_error_of_any_kind_is_read_as_the_same(error: ConverseError) -> None:
    """Its fault, its status, and the time to wait."""
    answer = responses.nativize_error(error)

    again = responses.produce_error(
        answer.body, provider="gateway", status=answer.status, headers=answer.headers
    )

    assert classify(again) == classify(error)


def test_errors_of_the_conversation_name_the_input() -> None:
    """That is its field in a request."""
    error = RequestError(path="canisters[1].content[0]", detail="No.")

    assert responses.nativize_error(error).body["error"]["param"] == "input"  # type: ignore[index,call-overload]
