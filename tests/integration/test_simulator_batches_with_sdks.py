"""The official libraries judge the simulator's batches: what they read is what was promised."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic, APIConnectionError, BadRequestError, NotFoundError
from google import genai
from google.genai import types
from openai import APIStatusError, OpenAI

from vibe_llms.testing.simulator import BATCH_FAULTS, SynchronousSimulator

_opened: list[Anthropic | OpenAI] = []


@pytest.fixture
def simulator() -> Iterator[SynchronousSimulator]:
    """A simulator, and the end of those who ask it."""
    with SynchronousSimulator() as running:
        yield running
        while _opened:
            _opened.pop().close()


def open_anthropic(simulator: SynchronousSimulator, simulate: str = "batch_polls=1") -> Anthropic:
    url = simulator.access_url(simulate)
    client = Anthropic(base_url=url, api_key="sk-ant-simulated", max_retries=0)
    _opened.append(client)
    return client


def open_openai(simulator: SynchronousSimulator, simulate: str = "batch_polls=1") -> OpenAI:
    url = f"{simulator.access_url(simulate)}/v1"
    client = OpenAI(base_url=url, api_key="sk-simulated", max_retries=0)
    _opened.append(client)
    return client


def ask(name: str, text: str, **fields: Any) -> Any:
    said = [{"role": "user", "content": text}]
    params = {"model": "simulated-large", "max_tokens": 50, "messages": said, **fields}
    return {"custom_id": name, "params": params}


def submit(
    client: OpenAI, *texts: str, endpoint: str = "/v1/chat/completions", **fields: Any
) -> Any:
    key = "input" if endpoint.endswith("responses") else "messages"
    lines = [
        {
            "custom_id": f"item-{number}",
            "method": "POST",
            "url": endpoint,
            "body": {"model": "simulated", key: [{"role": "user", "content": text}], **fields},
        }
        for number, text in enumerate(texts)
    ]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    file = client.files.create(file=("requests.jsonl", io.BytesIO(data)), purpose="batch")
    assert client.files.content(file.id).read() == data
    made: Any = client.batches.create
    return made(
        input_file_id=file.id, endpoint=endpoint, completion_window="24h", metadata={"ours": "a1"}
    )


def read_lines(client: OpenAI, file_id: str | None) -> list[dict[str, Any]]:
    assert file_id is not None
    return [json.loads(line) for line in client.files.content(file_id).iter_lines()]


def test_messages_go_from_progress_to_results(simulator: SynchronousSimulator) -> None:
    """Numbers move at the end alone; each result is known by its custom id, in any order."""
    client = open_anthropic(simulator, "batch_polls=2")
    wrong = ask("c", "What?", temperature=7)
    batch = client.messages.batches.create(requests=[ask("a", "One."), ask("b", "Two."), wrong])
    first = client.messages.batches.retrieve(batch.id)
    second = client.messages.batches.retrieve(batch.id)

    results = {each.custom_id: each.result for each in client.messages.batches.results(batch.id)}

    assert (first.processing_status, first.request_counts.processing) == ("in_progress", 3)
    assert (second.processing_status, second.request_counts.succeeded) == ("ended", 2)
    assert results["a"].type == "succeeded"
    assert results["a"].message.content[0].to_dict()["text"] == "One."
    assert results["a"].message.usage.service_tier == "batch"
    assert results["c"].type == "errored"
    assert results["c"].error.error.type == "invalid_request_error"


def test_messages_are_cancelled_expire_and_fail_one_by_one(simulator: SynchronousSimulator) -> None:
    """Each request says for itself what became of it."""
    client = open_anthropic(simulator, "batch_expires,batch_errors,batch_polls=9")
    requests = [ask(name, "Hello.") for name in "abc"]
    stopped = client.messages.batches.create(requests=requests)
    stopping = client.messages.batches.cancel(stopped.id)
    client.messages.batches.retrieve(stopped.id)
    client = open_anthropic(simulator, "batch_expires,batch_errors")
    ended = client.messages.batches.retrieve(client.messages.batches.create(requests=requests).id)

    cancelled = [each.result.type for each in client.messages.batches.results(stopped.id)]
    kinds = {each.custom_id: each.result.type for each in client.messages.batches.results(ended.id)}

    assert stopping.processing_status == "canceling"
    assert cancelled == ["canceled"] * 3
    assert kinds == {"a": "errored", "b": "succeeded", "c": "expired"}


def test_batches_of_messages_are_listed_newest_first(simulator: SynchronousSimulator) -> None:
    """The official library walks all pages; what was deleted is gone."""
    client = open_anthropic(simulator)
    batches = client.messages.batches
    made = [batches.create(requests=[ask("a", "Hello.")]).id for _ in range(5)]
    batches.retrieve(made[0])
    batches.delete(made[0])

    listed = [each.id for each in batches.list(limit=2)]

    assert listed == made[:0:-1]
    with pytest.raises(NotFoundError):
        batches.retrieve(made[0])


@pytest.mark.parametrize(
    "requests", [[], [ask("a b", "x")], [ask("a", "x"), ask("a", "y")], [ask("a" * 65, "x")]]
)
def test_batches_of_messages_are_refused_as_a_whole(
    simulator: SynchronousSimulator, requests: list[Any]
) -> None:
    """No requests, and custom ids that are not the vendor's."""
    with pytest.raises(BadRequestError):
        open_anthropic(simulator).messages.batches.create(requests=requests)


def test_a_batch_is_taken_though_nobody_hears_of_it(simulator: SynchronousSimulator) -> None:
    """The socket closes without an answer: the batch is there, and may be billed."""
    with pytest.raises(APIConnectionError):
        open_anthropic(simulator, "batch_unanswered").messages.batches.create(
            requests=[ask("a", "Hello.")]
        )

    assert len(open_anthropic(simulator).messages.batches.list().data) == 1


@pytest.mark.parametrize("endpoint", ["/v1/chat/completions", "/v1/responses"])
def test_files_of_requests_become_files_of_answers(
    simulator: SynchronousSimulator, endpoint: str
) -> None:
    """What succeeded and what failed are in two files; metadata comes back."""
    client = open_openai(simulator, "batch_errors")
    batch = submit(client, "One.", "Two.", endpoint=endpoint)
    ended = client.batches.retrieve(batch.id)

    right = read_lines(client, ended.output_file_id)
    wrong = read_lines(client, ended.error_file_id)

    assert (batch.status, ended.status) == ("in_progress", "completed")
    assert ended.metadata == {"ours": "a1"}
    assert ended.request_counts is not None
    assert (ended.request_counts.completed, ended.request_counts.failed) == (1, 1)
    assert [line["custom_id"] for line in right] == ["item-1"]
    assert "Two." in json.dumps(right[0]["response"]["body"])
    assert [line["response"]["status_code"] for line in wrong] == [500]


def test_files_of_requests_expire_and_are_cancelled(simulator: SynchronousSimulator) -> None:
    """What came before the end is there; of what was cancelled nothing is."""
    client = open_openai(simulator, "batch_expires")
    expired = client.batches.retrieve(submit(client, "One.", "Two.").id)
    other = submit(open_openai(simulator, "batch_polls=9"), "One.")
    cancelling = client.batches.cancel(other.id)
    cancelled = client.batches.retrieve(other.id)

    wrong = read_lines(client, expired.error_file_id)

    assert (expired.status, cancelling.status) == ("expired", "cancelling")
    assert [line["error"]["code"] for line in wrong] == ["batch_expired"]
    assert len(read_lines(client, expired.output_file_id)) == 1
    assert (cancelled.status, cancelled.output_file_id) == ("cancelled", None)


def test_a_file_with_mistakes_fails_as_a_whole(simulator: SynchronousSimulator) -> None:
    """The errors name their lines, and nothing of it is answered."""
    client = open_openai(simulator)
    line = {"custom_id": "a", "method": "POST", "url": "/v1/responses", "body": {"model": "m"}}
    data = f"{json.dumps(line)}\nnonsense\n".encode()
    file = client.files.create(file=("requests.jsonl", data), purpose="batch")
    failed = client.batches.create(
        input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
    )

    assert failed.status == "failed"
    assert failed.errors is not None
    assert failed.errors.data is not None
    told = [(each.line, each.code) for each in failed.errors.data]
    assert told == [(1, "mismatched_endpoint"), (2, "invalid_json_line")]


def test_batches_over_files_are_listed_newest_first(simulator: SynchronousSimulator) -> None:
    """The official library walks all pages, and Anthropic's batches are not among them."""
    client = open_openai(simulator)
    open_anthropic(simulator).messages.batches.create(requests=[ask("a", "Hello.")])
    made = [submit(client, "Hello.").id for _ in range(3)]

    assert [each.id for each in client.batches.list(limit=2)] == made[::-1]


def test_a_service_may_have_no_batches(simulator: SynchronousSimulator) -> None:
    with pytest.raises(APIStatusError, match="404"):
        open_openai(simulator, "no_batches").batches.list()


def test_every_fault_of_batches_is_tried() -> None:
    """A fault that no test above asks for by name is missing one."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    asked = " ".join(line for line in lines if "open_" in line)
    assert all(name in asked for name in BATCH_FAULTS)
    assert all(line.endswith(".") for line in BATCH_FAULTS.values())


def open_google(simulator: SynchronousSimulator, simulate: str = "batch_polls=1") -> genai.Client:
    options = types.HttpOptions(base_url=simulator.access_url(simulate))
    return genai.Client(api_key="sk-simulated", http_options=options)


def test_googles_batches_have_their_answers_in_them(simulator: SynchronousSimulator) -> None:
    """In the order of the requests, each with its metadata."""
    client = open_google(simulator, "batch_errors,batch_polls=2")
    requests: Any = [
        {"contents": [{"role": "user", "parts": [{"text": text}]}], "metadata": {"key": text}}
        for text in ("One.", "Two.")
    ]
    made = client.batches.create(
        model="gemini-3.8-flash", src=requests, config={"display_name": "numbers"}
    )
    assert made.name is not None
    assert (made.display_name, made.done) == ("numbers", False)
    waiting = client.batches.get(name=made.name)
    ended = client.batches.get(name=made.name)

    assert (waiting.done, ended.done) == (False, True)
    assert ended.state == types.JobState.JOB_STATE_SUCCEEDED
    assert ended.dest is not None
    assert ended.dest.inlined_responses is not None
    first, second = ended.dest.inlined_responses
    assert (first.metadata, second.metadata) == ({"key": "One."}, {"key": "Two."})
    assert first.error is not None
    assert second.response is not None
    assert second.response.text == "Two."
    assert [each.name for each in client.batches.list()] == [made.name]


def test_googles_batches_of_vectors(simulator: SynchronousSimulator) -> None:
    client = open_google(simulator)
    source: Any = {"inlined_requests": {"contents": ["One.", "Two."]}}
    with pytest.warns(Warning, match="experimental"):
        made = client.batches.create_embeddings(model="gemini-embedding-001", src=source)
    assert made.name is not None
    ended = client.batches.get(name=made.name)
    assert ended.dest is not None
    results = ended.dest.inlined_embed_content_responses
    assert results is not None
    widths = [len(each.response.embedding.values) for each in results]  # type: ignore[union-attr, arg-type]
    assert widths == [8, 8]


def test_googles_batches_expire_and_are_cancelled_as_a_whole(
    simulator: SynchronousSimulator,
) -> None:
    requests: Any = [{"contents": [{"role": "user", "parts": [{"text": "One."}]}]}]
    ended = []
    for simulate in ("batch_expires", "batch_polls=9"):
        client = open_google(simulator, simulate)
        made = client.batches.create(model="gemini-3.8-flash", src=requests)
        if simulate == "batch_polls=9":
            client.batches.cancel(name=str(made.name))
        ended.append(client.batches.get(name=str(made.name)))
    expired, cancelled = ended

    assert expired.state == types.JobState.JOB_STATE_EXPIRED
    assert cancelled.state == types.JobState.JOB_STATE_CANCELLED
    assert expired.dest is None
    assert cancelled.dest is None
