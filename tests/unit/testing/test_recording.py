"""A recorder keeps what was exchanged and none of its secrets; a replayer answers with it."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.exceptions import TransportError
from vibe_llms.foundation.secrets import Secret
from vibe_llms.testing.recording import Recorder, Replayer
from vibe_llms.testing.recording.recordings import read_recordings
from vibe_llms.testing.recording.replayer import UnrecordedRequestError
from vibe_llms.wire.exchanges import WireRequest
from vibe_llms.wire.memory import MemoryAnswer, MemoryTransport
from vibe_llms.wire.scrubbing import Scrubber

ENCODINGS: dict[str, Callable[[str], str]] = {
    "raw": lambda text: text,
    "json": lambda text: json.dumps(text)[1:-1],
    "json_unicode": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "json_twice": lambda text: json.dumps(json.dumps(text))[3:-3],
    "json_all_escaped": lambda text: "".join(
        f"\\u{unit:04X}" for unit in memoryview(text.encode("utf-16-le")).cast("H")
    ),
    "url": lambda text: quote(text, safe=""),
    "url_lower": lambda text: quote(text, safe="").lower() if text.islower() else quote(text),
    "form": quote_plus,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64_url": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "base64_inside": lambda text: base64.b64encode(b"user:" + text.encode() + b"\nx").decode(),
    "base64_inside_by_one": lambda text: base64.b64encode(b"!" + text.encode() + b"??").decode(),
    "hex": lambda text: text.encode().hex(),
}
CANARIES = (
    st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=8, max_size=40)
    .map(str.strip)
    .filter(lambda text: len(text) >= 8)
)


def contains_secret(data: bytes, canary: str) -> bool:
    """Whether a canary is left in bytes in any of the forms, wherever base64 starts."""
    forms = [encode(canary) for encode in ENCODINGS.values()]
    if any(form.encode() in data for form in forms):
        return True
    core = base64.b64encode(canary.encode())[: len(canary.encode()) * 8 // 6]
    return core in data


@given(canary=CANARIES, name=st.sampled_from(sorted(ENCODINGS)), around=st.text(max_size=8))
def test_a_secret_is_struck_out_in_every_encoding(canary: str, name: str, around: str) -> None:
    """Nothing of a known secret is left, however it was written."""
    written = f"{around}<{ENCODINGS[name](canary)}>{around}".encode("utf-8", "replace")
    scrubbed = Scrubber([Secret(canary)]).scrub(written)
    assert b"********" in scrubbed
    assert not contains_secret(scrubbed, canary)


@given(canary=CANARIES, data=st.data())
def test_a_secret_across_the_boundaries_of_chunks_is_struck_out(
    canary: str, data: st.DataObject
) -> None:
    """Chunks keep their number, and together hold nothing of the secret."""
    whole = f"before {canary} after".encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    places = [0, *cuts, len(whole)]
    pieces = [whole[a:b] for a, b in pairwise(places)]
    scrubbed = Scrubber([canary]).scrub_pieces(pieces)
    assert len(scrubbed) == len(pieces)
    assert b"".join(scrubbed) == b"before ******** after"


@pytest.mark.parametrize(
    "text",
    [
        "sk-proj-abcdefghijklmnopqrstuvwxyz",
        "sk-ant-api03-abcdefghijklmnopqrstuv",
        "AIzaSyA1234567890abcdefghijklmnopqrstu",
        "Bearer abcdefghijklmnop",
        "gsk_abcdefghijklmnopqrstuvwx",
        "vk-7641n290-14xetnrwzdj599dhpbca6zrdztzt1pkwb3z10d",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefgh",
    ],
)
def test_what_has_the_shape_of_a_key_is_struck_out(text: str) -> None:
    """Nobody has to name a key that looks like one."""
    assert Scrubber().scrub_text(f'"{text}"') == '"********"'


def test_ordinary_text_stays_as_it_is() -> None:
    """What is no secret is not touched, short secrets are none."""
    text = "A task-force of sk-ilful bearers; the key is simple."
    assert Scrubber(["a", "key"]).scrub_text(text) == text


async def converse(transport: Recorder | Replayer, request: WireRequest) -> list[bytes]:
    """Sends a request and receives all chunks."""
    async with await transport.send(request) as exchange:
        chunks = []
        while data := await exchange.receive():
            chunks.append(data)
        return chunks


def make_request(key: str = "sk-canary-0123456789abcdef", said: str = "hi") -> WireRequest:
    """A request that holds its key in its header, its query and its body."""
    return WireRequest(
        url=f"https://user:{key}@api.example.com/v1/messages?key={key}&alt=sse",
        headers={"x-api-key": Secret(key), "x-custom": "canary-header-value"},
        body=json.dumps({"model": "m", "said": said, "leak": f"my {key}"}).encode(),
    )


async def test_a_recorded_exchange_is_replayed_with_its_chunks(tmp_path: Path) -> None:
    """Status, chunks and the headers that clients act upon come back; another key fits too."""
    chunks = [b"data: \xc3", b"\xa4\n\n", b"data: you said my sk-canary-0123456", b"789abcdef\n"]

    async def answer(request: WireRequest) -> MemoryAnswer:
        headers = {"content-type": "text/event-stream", "Retry-After": "3", "request-id": "secret"}
        return MemoryAnswer(status=429, headers=headers, chunks=chunks)

    path = tmp_path / "recorded.jsonl"
    await converse(Recorder(MemoryTransport(answer), path), make_request())
    written = path.read_bytes()
    assert not contains_secret(written, "sk-canary-0123456789abcdef")
    for absent in (b"canary-header-value", b"request-id", b"x-api-key", b"x-custom"):
        assert absent not in written
    replayer = Replayer(path)
    other_key = make_request("sk-another-key-entirely-9876")
    async with await replayer.send(other_key) as exchange:
        assert exchange.status == 429
        assert exchange.headers["retry-after"] == "3"
        assert exchange.headers["content-type"] == "text/event-stream"
    replayed = await converse(replayer, other_key)
    assert replayed == [*chunks[:2], b"data: you said my ********", b"\n"]
    assert await converse(Replayer(path, chunk_bytes=1), other_key) == [
        bytes([byte]) for byte in b"".join(replayed)
    ]


async def test_recordings_of_one_request_are_used_in_their_order(tmp_path: Path) -> None:
    """The first answer comes first, and the last one again and again."""
    answers = iter([b"one", b"two"])

    async def answer(request: WireRequest) -> MemoryAnswer:
        return MemoryAnswer(chunks=[next(answers)])

    path = tmp_path / "recorded.jsonl"
    recorder = Recorder(MemoryTransport(answer), path)
    for _ in range(2):
        await converse(recorder, make_request())
    replayer = Replayer(path)
    told = [b"".join(await converse(replayer, make_request())) for _ in range(3)]
    assert told == [b"one", b"two", b"two"]


async def test_an_unknown_request_names_the_nearest_recording(tmp_path: Path) -> None:
    """The error says which recording is nearest, and which fields differ."""

    async def answer(request: WireRequest) -> MemoryAnswer:
        return MemoryAnswer(chunks=[b"{}"])

    path = tmp_path / "recorded.jsonl"
    recorder = Recorder(MemoryTransport(answer), path)
    await converse(recorder, make_request(said="hi"))
    (recording,) = read_recordings(path)
    with pytest.raises(UnrecordedRequestError, match=f"{recording.id}.* differs in said"):
        await Replayer(path).send(make_request(said="ho"))
    elsewhere = WireRequest(url="https://api.example.com/v1/message", body=b"{}")
    with pytest.raises(UnrecordedRequestError, match="nearest path is POST /v1/messages"):
        await Replayer(path).send(elsewhere)


async def test_an_exchange_that_was_left_breaks_off_in_the_replay(tmp_path: Path) -> None:
    """What was not read to its end is no whole answer when it is replayed."""

    async def answer(request: WireRequest) -> MemoryAnswer:
        return MemoryAnswer(chunks=[b"one", b"two"])

    path = tmp_path / "recorded.jsonl"
    async with await Recorder(MemoryTransport(answer), path).send(make_request()) as exchange:
        assert await exchange.receive() == b"one"
    async with await Replayer(path).send(make_request()) as exchange:
        assert await exchange.receive() == b"one"
        with pytest.raises(TransportError, match="breaks off"):
            await exchange.receive()


async def test_a_body_that_is_no_utf_8_survives(tmp_path: Path) -> None:
    """Bytes come back as they were."""

    async def answer(request: WireRequest) -> MemoryAnswer:
        return MemoryAnswer(chunks=[b"\xff\x00", b"\xfe"])

    path = tmp_path / "recorded.jsonl"
    await converse(Recorder(MemoryTransport(answer), path), make_request())
    assert await converse(Replayer(path), make_request()) == [b"\xff\x00", b"\xfe"]


@pytest.mark.slow
async def test_recordings_of_others_are_replayed() -> None:
    """Every exchange that others recorded answers its own request, byte for byte."""
    folder = os.environ.get("VIBE_LLMS_RECORDINGS")
    if not folder:
        pytest.skip("VIBE_LLMS_RECORDINGS names no folder of recordings")
    count = 0
    for path in sorted(Path(folder).glob("*.jsonl")):
        recordings = read_recordings(path)
        for recording in recordings:
            if not recording.path.startswith("/"):
                continue  # a placeholder where the path was
            request = WireRequest(
                method=recording.method,
                url=f"https://{recording.host}{quote(recording.path)}",
                body=json.dumps(recording.request).encode() if recording.request else b"",
            )
            received = b"".join(await converse(Replayer([recording]), request))
            assert received == recording.body
            count += 1
    assert count > 0
