"""Large contents are uploaded once, and again when the vendor no longer has them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import pytest

from support.vendors.remoting import produce_context
from vibe_llms.conversations import DirectoryStore
from vibe_llms.exceptions import ConfigurationError, ProviderError, StoreError
from vibe_llms.messages.canisters import Origin, UserCanister
from vibe_llms.messages.contents import AudioContent, FileContent, ImageContent, Native
from vibe_llms.messages.identities import access_now
from vibe_llms.messages.requests import Request
from vibe_llms.messages.vendor_files import VendorFile
from vibe_llms.providers import (
    anthropic,
    google,
    openai_compatible,
    openai_conversations,
    openai_responses,
)
from vibe_llms.providers.remote_models import RemoteModel
from vibe_llms.testing.simulator import Simulator
from vibe_llms.testing.simulator.behaviour import produce_png

PICTURE = ImageContent(mime_type="image/png", data=produce_png(40, 30), name="holiday.png")
PAGES = FileContent(mime_type="application/pdf", data=b"%PDF-1.4 " + b"x" * 2_000)


class Vendor(NamedTuple):
    """A vendor with files, and what a model sees of an uploaded content."""

    module: Any
    model: str
    path: str
    content: Any
    seen: str


VENDORS = {
    "openai_responses": Vendor(
        openai_responses, "gpt-5", "/v1", PICTURE, "image/png of 40 x 30 pixels"
    ),
    "openai_conversations": Vendor(
        openai_conversations, "gpt-5", "/v1", PAGES, "application/pdf of 2009 bytes"
    ),
    "anthropic": Vendor(anthropic, "claude-sonnet-4-5", "", PICTURE, "image/png of 40 x 30 pixels"),
    "mistral": Vendor(
        openai_compatible, "mistral-large-latest", "/v1", PAGES, "application/pdf of 2009 bytes"
    ),
    "google": Vendor(google, "gemini-3-pro", "", PICTURE, "image/png of 40 x 30 pixels"),
}
Access = Callable[..., Any]


@pytest.fixture(params=list(VENDORS))
def vendor(request: pytest.FixtureRequest) -> str:
    """Each vendor's name."""
    return str(request.param)


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """The vendors."""
    async with Simulator() as running:
        yield running


@pytest.fixture
async def access(tmp_path: Path, simulator: Simulator) -> AsyncIterator[Access]:
    """Gives access to a vendor's model; each call is another program, with the same store."""
    async with AsyncExitStack() as stack:

        async def access_model(name: str, simulate: str = "", **settings: Any) -> RemoteModel:
            vendor = VENDORS[name]
            address = simulator.access_url(simulate) if simulate else simulator.url
            settings = {"upload_bytes": 20, "api_key": "canary", **settings}
            context = attrs.evolve(
                produce_context(name, tmp_path, base_url=address + vendor.path, **settings),
                access_vendor_files=lambda: DirectoryStore(tmp_path).vendor_files,
            )
            client = vendor.module.produce_provider(context).produce_client()
            stack.push_async_callback(client.close)
            model: RemoteModel = await client.access_model(vendor.model)
            return model

        yield access_model


def ask(content: Any, *earlier: Any, **fields: Any) -> Request:
    return Request(canisters=[*earlier, UserCanister(["What is it?", content])], **fields)


def list_uploads(simulator: Simulator) -> list[str]:
    is_upload = lambda each: each.method == "POST" and each.path.endswith("/files")  # noqa: E731
    return [each.path for each in simulator.requests if is_upload(each)]


def list_answers(simulator: Simulator) -> list[Any]:
    return [each for each in simulator.requests if isinstance(each.body, dict) and each.answered]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_content_is_uploaded_once_for_all_requests(
    simulator: Simulator, access: Access, vendor: str, stream: bool, tmp_path: Path
) -> None:
    content = VENDORS[vendor].content
    DirectoryStore(tmp_path).contents.add(content.data, mime_type=content.mime_type)
    model = await access(vendor)

    first = await model.converse(ask(content), stream=stream)
    second = await model.converse(ask(content, *first.conversation), stream=stream)
    other_program = await access(vendor)
    third = await other_program.converse(ask(content), stream=stream)

    for answer in (first, second, third):
        assert VENDORS[vendor].seen in answer.text
    assert len(list_uploads(simulator)) == 1
    inline = content.data[:30].hex()
    assert all(inline not in each.data.hex() for each in list_answers(simulator))
    inline_losses = other_program.translate(ask(content), streaming=stream).losses
    assert set(first.losses) <= set(inline_losses)  # the file has its name
    noted = list(DirectoryStore(tmp_path).vendor_files.survey())
    assert [each.content_id for each in noted] == [content.content_id]
    assert "canary" not in noted[0].account
    assert (noted[0].file.ends is None) == (vendor == "mistral")  # others can set an end


@pytest.mark.parametrize("stream", [True, False])
async def test_a_file_that_was_deleted_is_uploaded_again_once(
    simulator: Simulator, access: Access, vendor: str, stream: bool
) -> None:
    content = VENDORS[vendor].content
    model = await access(vendor, "files_end")
    answer = await model.converse(ask(content), stream=stream)
    assert VENDORS[vendor].seen in answer.text
    assert len(list_uploads(simulator)) == 2

    gone = await access(vendor, "files_end=5")
    with pytest.raises(ProviderError):
        await gone.converse(ask(content), stream=stream)
    assert len(list_uploads(simulator)) == 4


async def test_another_error_of_the_request_is_reported_without_an_upload(
    simulator: Simulator, access: Access, vendor: str
) -> None:
    model = await access(vendor)
    await model.converse(ask(VENDORS[vendor].content))
    overflowing = await access(vendor, "context_overflow")
    with pytest.raises(Exception, match=r"(?i)token|context|prompt"):
        await overflowing.converse(ask(VENDORS[vendor].content))
    assert len(list_uploads(simulator)) == 2  # one for each address


async def test_a_file_about_to_end_is_uploaded_again(
    simulator: Simulator, access: Access, vendor: str, tmp_path: Path
) -> None:
    content = VENDORS[vendor].content
    store = DirectoryStore(tmp_path)
    store.contents.add(content.data, mime_type=content.mime_type)
    await (await access(vendor)).converse(ask(content))
    (noted,) = store.vendor_files.survey()
    ended = VendorFile(id=noted.file.id, ends=access_now() + timedelta(minutes=1))
    store.vendor_files.note(noted.content_id, noted.account, ended)

    answer = await (await access(vendor)).converse(ask(content))

    assert VENDORS[vendor].seen in answer.text
    assert len(list_uploads(simulator)) == 2
    (renewed,) = store.vendor_files.survey()
    assert renewed.file.id != noted.file.id


async def test_requests_at_the_same_time_share_one_upload(
    simulator: Simulator, access: Access, vendor: str
) -> None:
    model = await access(vendor, "slow=20")
    request = ask(VENDORS[vendor].content)
    cancelled = asyncio.create_task(model.converse(request))
    others = [asyncio.create_task(model.converse(request)) for _ in range(5)]
    await asyncio.sleep(0)  # all have begun
    cancelled.cancel()
    answers = await asyncio.gather(*others)
    assert all(VENDORS[vendor].seen in answer.text for answer in answers)
    assert len(list_uploads(simulator)) == 1


async def test_a_request_after_all_were_cancelled_uploads_again(
    simulator: Simulator, access: Access, vendor: str
) -> None:
    model = await access(vendor, "slow=50")
    request = ask(VENDORS[vendor].content)
    for _ in range(2):
        cancelled = asyncio.create_task(model.converse(request))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
    assert VENDORS[vendor].seen in (await model.converse(request)).text


async def test_without_the_store_a_program_remembers_its_uploads(
    simulator: Simulator, access: Access, vendor: str
) -> None:
    """An upload that could not be noted is lost only for the next program."""

    def fail() -> None:
        raise StoreError(detail="The database is unreachable.")

    for _ in range(2):
        model = await access(vendor)
        object.__setattr__(model.client.vendor.context, "access_vendor_files", fail)
        for _ in range(2):
            answer = await model.converse(ask(VENDORS[vendor].content))
            assert VENDORS[vendor].seen in answer.text
    assert len(list_uploads(simulator)) == 2


async def test_a_refused_upload_is_the_error_of_the_request(
    simulator: Simulator, access: Access, vendor: str
) -> None:
    model = await access(vendor, "server_error=9")
    with pytest.raises(ProviderError):
        await model.converse(ask(VENDORS[vendor].content))
    assert all(each.path.endswith("/files") for each in simulator.requests)


async def test_another_key_has_other_files(
    simulator: Simulator, access: Access, vendor: str, tmp_path: Path
) -> None:
    content = VENDORS[vendor].content
    DirectoryStore(tmp_path).contents.add(content.data, mime_type=content.mime_type)
    for key in ("first", "second", "first"):
        await (await access(vendor, api_key=key)).converse(ask(content))
    assert len(list_uploads(simulator)) == 2


async def test_small_text_and_result_contents_stay_in_the_request(
    simulator: Simulator, access: Access, vendor: str
) -> None:
    model = await access(vendor, upload_bytes=1_500)
    text = FileContent(mime_type="text/plain", data=b"x" * 5_000, name="a.txt")
    small = attrs.evolve(PAGES, data=PAGES.data[:1_000], content_id=None)
    request = Request(canisters=[UserCanister(["Read.", text, small])])
    await model.converse(request)
    assert not list_uploads(simulator)


async def test_files_of_other_answers_do_not_hide_an_upload(
    simulator: Simulator, access: Access, vendor: str
) -> None:
    """A conversation that another vendor has continued refers to our upload, too."""
    model = await access(vendor)
    native = Native(protocol="other", data='{"x": 1}')
    content = attrs.evolve(VENDORS[vendor].content, native=native)
    first = await model.converse(ask(content))
    foreign = Origin(provider="other", model="m", protocol="other")
    answered = [attrs.evolve(each, origin=foreign) for each in first.canisters]
    request = Request(
        canisters=[UserCanister(["Look.", content]), *answered, UserCanister(["Again.", content])]
    )
    answer = await model.converse(request)
    assert VENDORS[vendor].seen in answer.text
    assert len(list_uploads(simulator)) == 1


async def test_a_video_is_awaited_until_it_is_processed(
    simulator: Simulator, access: Access
) -> None:
    model = await access("google", "file_polls=3")
    sound = AudioContent(mime_type="audio/wav", data=b"RIFF" + b"x" * 500)
    answer = await model.converse(ask(sound))
    assert "audio/wav of 504 bytes" in answer.text
    questions = [each for each in simulator.requests if each.method == "GET"]
    assert len(questions) == 3


async def test_without_the_setting_a_service_elsewhere_gets_no_uploads(
    simulator: Simulator, tmp_path: Path, vendor: str
) -> None:
    """Another service with the vendor's protocol may have no files."""
    each = VENDORS[vendor]
    context = produce_context(
        vendor, tmp_path, base_url=simulator.url + each.path, api_key="canary"
    )
    client = each.module.produce_provider(context).produce_client()
    large = FileContent(mime_type="application/pdf", data=b"%PDF-1.4 " + b"x" * 11_000_000)
    assert client.access_uploads() is None
    default = produce_context(vendor, tmp_path, api_key="canary")
    uploads = each.module.produce_provider(default).produce_client()
    found = uploads.access_uploads()
    assert list(found.find_large(ask(large))) == [large.content_id]
    assert found.find_large(ask(PAGES)) == {}


def test_the_setting_is_refused_for_a_vendor_without_files(tmp_path: Path) -> None:
    from vibe_llms.providers import ollama

    context = produce_context("ollama", tmp_path, upload_bytes=5)
    with pytest.raises(ConfigurationError, match="upload_bytes"):
        ollama.produce_provider(context).produce_client()
