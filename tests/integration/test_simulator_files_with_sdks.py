"""The official libraries judge the simulator's files: upload, list, refer to and delete them."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from anthropic import Anthropic
from anthropic import NotFoundError as AnthropicNotFound
from google import genai
from google.genai import errors, types
from openai import NotFoundError, OpenAI

from vibe_llms.testing.simulator import FILE_FAULTS, SynchronousSimulator
from vibe_llms.testing.simulator.behaviour import produce_png

PICTURE = produce_png(40, 30)
SEEN = "image/png of 40 x 30 pixels"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def simulator() -> Iterator[SynchronousSimulator]:
    """The vendors."""
    with SynchronousSimulator() as running:
        yield running


def test_files_of_openai(simulator: SynchronousSimulator) -> None:
    with OpenAI(base_url=f"{simulator.url}/v1", api_key="sk-simulated", max_retries=0) as client:
        file = client.files.create(
            file=("a.png", PICTURE, "image/png"),
            purpose="user_data",
            expires_after={"anchor": "created_at", "seconds": 3600},
        )
        assert file.expires_at == file.created_at + 3600
        assert [each.id for each in client.files.list()] == [file.id]
        assert client.files.content(file.id).read() == PICTURE
        content = [{"type": "input_image", "file_id": file.id, "detail": "auto"}]
        message = {"role": "user", "content": content}
        answer = client.responses.create(model="simulated", input=[message])  # type: ignore[list-item]
        assert SEEN in answer.output_text
        assert client.files.delete(file.id).deleted
        for request in (
            lambda: client.files.retrieve(file.id),
            lambda: client.responses.create(model="simulated", input=[message]),  # type: ignore[list-item]
        ):
            with pytest.raises(NotFoundError, match=file.id):
                request()


def test_files_of_anthropic(simulator: SynchronousSimulator) -> None:
    with Anthropic(base_url=simulator.url, api_key="sk-simulated", max_retries=0) as client:
        file = client.files.upload(file=("a.png", PICTURE, "image/png"), expires_in_seconds=3600)
        assert file.mime_type == "image/png"
        assert file.expires_at is not None
        assert (file.expires_at - file.created_at).total_seconds() == 3600
        assert file.id in [each.id for each in client.files.list()]
        source = {"type": "file", "file_id": file.id}
        message = {"role": "user", "content": [{"type": "image", "source": source}]}
        answer = client.messages.create(model="m", max_tokens=99, messages=[message])  # type: ignore[list-item]
        assert SEEN in answer.content[0].text  # type: ignore[union-attr]
        client.files.delete(file.id)
        with pytest.raises(AnthropicNotFound, match=file.id):
            client.messages.create(model="m", max_tokens=99, messages=[message])  # type: ignore[list-item]


def test_files_of_gemini(simulator: SynchronousSimulator) -> None:
    options = types.HttpOptions(base_url=simulator.access_url("file_polls=2"))
    client = genai.Client(api_key="simulated", http_options=options)
    file = client.files.upload(
        file=io.BytesIO(PICTURE), config={"mime_type": "image/png", "display_name": "a.png"}
    )
    assert (file.display_name, file.state) == ("a.png", types.FileState.PROCESSING)
    assert file.name
    with pytest.raises(errors.ClientError, match="ACTIVE"):
        client.models.generate_content(model="simulated", contents=[file])
    states = [client.files.get(name=file.name).state for _ in range(2)]
    assert states == [types.FileState.PROCESSING, types.FileState.ACTIVE]
    assert SEEN in str(client.models.generate_content(model="simulated", contents=[file]).text)
    assert file.name in [each.name for each in client.files.list()]
    client.files.delete(name=file.name)
    with pytest.raises(errors.ClientError, match="permission"):
        client.files.get(name=file.name)


def test_each_fault_has_a_description() -> None:
    assert set(FILE_FAULTS) == {"files_end", "file_polls"}
    assert all(line.endswith(".") for line in FILE_FAULTS.values())
