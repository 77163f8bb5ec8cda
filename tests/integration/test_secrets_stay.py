"""What a user keeps secret turns up nowhere, whatever a vendor does, in no way of writing it.

Nowhere: no log, warning, error (with its causes, and with the variables of its traceback), event,
representation of an object, file or output of the command. The variables of other people's code
are none of it: while a request is on its way, aiohttp and the official libraries hold keys as
text, which a traceback of a *cancellation* shows to whoever prints variables.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import subprocess
import traceback
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import tomli_w

from support.gateways.remote_gateways import RemoteGateway
from support.network.wire_servers import Connection, serve
from support.quality.properties import sample
from support.screens.command_line import VIBE, produce_environment
from support.vendors.shipped import SHIPPED, SURVEYED, ShippedProvider, is_survey
from vibe_llms.events.codec import encode_event
from vibe_llms.exceptions import ConfigurationError, ConverseError
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.codec.envelopes import encode_response
from vibe_llms.messages.codec.errors import encode_error
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request
from vibe_llms.providers.interfaces import ConverserModel
from vibe_llms.testing.recording import Recorder
from vibe_llms.testing.simulator import FAULTS, SynchronousSimulator
from vibe_llms.wire.direct import DirectTransport

KEY = 'canary-7c/1e+5b"9f2a'
HEADER = "canary-of-a-header:8d+3"
PASSWORD = "canary-of-a-proxy"
SECRETS = (KEY, HEADER, PASSWORD)
TOOL = InvocableDescription(name="look", description="Looks.", schema={"type": "object"})
REQUEST = Request(canisters=[UserCanister("Think, then call look.")], invocables=[TOOL])
SHORT = {
    "deep_nesting": "deep_nesting=1000",
    "huge_event": "huge_event=10000",
    "many_events": "many_events=50",
    "slow": "slow=1",
}
"""Faults that would else take long."""

providers = pytest.mark.parametrize("provider", SHIPPED.values(), ids=list(SHIPPED))


def list_forms(secret: str) -> list[str]:
    """Every way in which a secret might be written."""
    data = secret.encode()
    aligned = [
        base64.b64encode(b"x" * before + data).decode()[(before > 0) + before // 2 :][1:-5]
        for before in range(3)
    ]
    return [secret, quote(secret, safe=""), json.dumps(secret)[1:-1], data.hex(), *aligned]


FORMS = [form for secret in SECRETS for form in list_forms(secret)]


def find_secrets(shown: str) -> list[str]:
    """Returns what of the secrets stands in a text, in whatever case."""
    lowered = shown.lower()
    return [form for form in FORMS if form.lower() in lowered]


def walk_objects(root: object, seen: set[int], depth: int = 12) -> Iterator[object]:
    """Yields the objects of ours that are reachable from one, each once."""
    if id(root) in seen or depth == 0 or isinstance(root, type | str | bytes | int | None):
        return
    seen.add(id(root))
    children: list[object] = []
    if isinstance(root, dict):
        children = [*root.keys(), *root.values()]
    elif isinstance(root, list | tuple | set | frozenset):
        children = [*root]
    elif type(root).__module__.startswith("vibe_llms"):
        yield root
        children = [*getattr(root, "__dict__", {}).values()]
        for cls in type(root).__mro__:
            slots = getattr(cls, "__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if type(root).__name__ not in ("Secret", "Settings"):
                    children.append(getattr(root, name, None))
    for child in children:
        yield from walk_objects(child, seen, depth - 1)


def show_error(error: BaseException) -> str:
    """Returns all that can be shown of an error."""
    lines = traceback.TracebackException.from_exception(error, capture_locals=True).format()
    shown = ["".join(lines), repr(error), str(error.args)]
    for each in (error, error.__cause__, error.__context__):
        if isinstance(each, ConverseError):
            shown += [encode_error(each).decode(), repr(vars(each))]
    return "\n".join(shown)


async def show_exchange(model: ConverserModel, *, stream: bool = True) -> str:
    """Asks, and returns all that can be shown of what happens."""
    shown: list[str] = []
    try:
        if stream:
            async with model.stream(REQUEST) as events:
                async for event in events:
                    shown += [repr(event), encode_event(event).decode()]
                response = await events.response()
            shown += map(repr, walk_objects(events, set()))
        else:
            response = await model.converse(REQUEST, stream=False)
        shown += [repr(response), encode_response(response).decode()]
    except ConverseError as error:
        shown.append(show_error(error))
    shown += map(repr, walk_objects(model, set()))
    return "\n".join(shown)


@pytest.fixture
def logs(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Hears whatever anybody logs, with its arguments."""
    caplog.set_level(logging.DEBUG)
    names = [*logging.root.manager.loggerDict, "asyncio", "aiohttp.client", "vibe_llms.wire"]
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.DEBUG)
    yield caplog
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def show_logs(logs: pytest.LogCaptureFixture) -> str:
    return "\n".join(f"{each.getMessage()} {each.args!r} {each.exc_text}" for each in logs.records)


@asynccontextmanager
async def access(
    provider: ShippedProvider, url: str, tmp_path: Path, **more: Any
) -> AsyncIterator[Any]:
    """Gives a model that asks with secrets, and looks through what is left on the disk."""
    asyncio.get_running_loop().set_debug(True)
    settings = {"headers": {"x-private": HEADER}, "between_chunks_seconds": 0.2, **more}
    settings = {"api_key": KEY, **settings} if "api_key_file" not in more else settings
    folder = tmp_path / "provider"
    model: Any = await provider.access(url, folder, limits=Limits(attempts=2), **settings)
    try:
        yield model
    finally:
        await model._client.close()
        assert find_secrets(show_files(folder)) == []


@contextmanager
def standing(
    provider: ShippedProvider,
) -> Iterator[tuple[SynchronousSimulator, str, Callable[[], str]]]:
    """Gives the vendor of a provider, where it is asked, and what tells which headers came there.

    A gateway's vendor stands behind a gateway.
    """
    with SynchronousSimulator(provider.simulate) as simulator:
        if provider.protocol != "converse":
            requests = simulator.requests
            yield simulator, simulator.url, lambda: "\n".join(_list_values(requests))
            return
        vendor = {"base_url": simulator.url, "api_key": "another"}
        with RemoteGateway({"providers": {"anthropic": vendor}}).run_in_thread() as far:
            yield (
                simulator,
                far.url,
                lambda: "\n".join(
                    value.decode() for head in far.request_headers for _, value in head
                ),
            )


def _list_values(requests: Iterable[Any]) -> Iterator[str]:
    for request in requests:
        yield from request.headers.values()


def show_files(folder: Path) -> str:
    files = [path for path in folder.rglob("*") if path.is_file()]
    names = "\n".join(str(path.relative_to(folder)) for path in files)
    return names + "\n".join(path.read_bytes().decode("latin-1") for path in files)


async def test_the_forms_are_those_that_are_looked_for() -> None:
    """A search that finds nothing would pass."""
    for form in list_forms(KEY):
        assert find_secrets(f"--{form.upper()}--")
    coded = [base64.b64encode(b"Basic"[:n] + KEY.encode() + b":").decode() for n in range(3)]
    assert all(map(find_secrets, coded))
    assert not find_secrets("an innocent text")


def choose_faults(provider: ShippedProvider) -> list[str]:
    """Returns what may go wrong; those of one protocol, where they are many, take turns."""
    faults = [SHORT.get(name, name) for name in FAULTS]
    peers = [each for each in SHIPPED.values() if each.protocol == provider.protocol]
    return faults if len(peers) < 4 else sample(faults, peers.index(provider))


@pytest.mark.slow
@pytest.mark.samples
@providers
async def test_no_fault_shows_a_secret(
    provider: ShippedProvider, tmp_path: Path, logs: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    """In success, and in whatever the simulator can do wrong."""
    monkeypatch.setattr("vibe_llms.providers.retries._FIRST_SECONDS", 0.0)
    with standing(provider) as (simulator, url, list_heads):
        async with access(provider, url, tmp_path) as model:
            for fault in ("", *choose_faults(provider)):
                simulator.switch(",".join(filter(None, (provider.simulate, fault))))
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr("asyncio.sleep", _hurry)
                    shown = await show_exchange(model)
                assert find_secrets(shown) == [], fault
            simulator.switch(provider.simulate)
            assert find_secrets(await show_exchange(model, stream=False)) == []
            try:
                await model._client.survey_models(refresh=True)
            except ConverseError as error:
                assert find_secrets(show_error(error)) == []  # noqa: PT017  # it may fail or not
        heads = list_heads()
        assert HEADER in heads
        assert KEY in heads
    assert find_secrets(show_logs(logs)) == []


_sleep = asyncio.sleep


async def _hurry(seconds: float) -> None:
    await _sleep(min(seconds, 0.01))


@pytest.mark.slow
@providers
async def test_a_server_that_sends_back_what_it_was_sent(
    provider: ShippedProvider, tmp_path: Path, logs: pytest.LogCaptureFixture
) -> None:
    """As an error, a page, a redirection, an event: in any way of writing it."""
    forms = [form for secret in (KEY, HEADER) for form in list_forms(secret)[:4]]
    coded = [base64.b64encode(b"k:"[:n] + KEY.encode() + b":").decode() for n in range(3)]
    words = " and ".join(f"bEARER {form}" for form in (*forms, *coded))
    problem = json.dumps({"type": "error", "error": {"message": words, "type": words}})
    event = f"event: error\ndata: {problem}\n\n"
    if "ndjson" in provider.framing:
        event = json.dumps({"error": words}) + "\n"
    for status, kind, body in (
        ("401 Unauthorized", "application/json", problem),
        ("400 Bad Request", "text/plain", words),
        ("200 OK", "text/html", f"<p>{words}"),
        ("200 OK", "application/json", problem),
        ("200 OK", provider.framing, event),
        (f"307 Away\r\nLocation: /{quote(KEY, safe='')}", "text/plain", ""),
    ):
        shown = await _be_echoed(provider, tmp_path, status, kind, body)
        assert "Error" in shown
        assert "****" in shown
        assert find_secrets(shown) == [], (status, kind)
    assert find_secrets(show_logs(logs)) == []


async def _be_echoed(
    provider: ShippedProvider, tmp_path: Path, status: str, kind: str, body: str
) -> str:
    """Asks a server that answers so; returns all that can be shown of what happens."""

    async def echo(connection: Connection) -> None:
        while True:
            line, _, _ = await connection.read_request()
            if is_survey(line):
                await connection.answer(SURVEYED)
                continue
            headers = f"Content-Type: {kind}\r\n"
            await connection.answer(body.encode(), status=status, headers=headers)

    async with (
        asyncio.timeout(60),
        serve(echo) as server,
        access(provider, server.url, tmp_path) as model,
    ):
        return await show_exchange(model)


@pytest.mark.slow
@providers
async def test_a_recording_holds_no_secret(provider: ShippedProvider, tmp_path: Path) -> None:
    """Of what was sent; the file of the key is read, and is not copied."""
    key = tmp_path / "key"
    key.write_text(KEY)
    tape = tmp_path / "tape.jsonl"
    with standing(provider) as (_, url, list_heads):
        settings = {"api_key_file": str(key), "headers": {"x-private": HEADER}}
        async with access(provider, url, tmp_path, **settings) as model:
            await model._client.close()
            recorder = Recorder(DirectTransport(limits=Limits()), tape)
            model._client._transport = recorder
            assert find_secrets(await show_exchange(model)) == []
            await recorder.close()
        assert KEY in list_heads()
    assert tape.stat().st_size > 100
    assert find_secrets(tape.read_text()) == []


async def test_a_proxy_keeps_its_password(tmp_path: Path, logs: pytest.LogCaptureFixture) -> None:
    """One that is not there, one that refuses, one that says what it was told."""
    word = base64.b64encode(f"user:{PASSWORD}".encode()).decode()

    async def refuse(connection: Connection) -> None:
        _, headers, _ = await connection.read_request()
        assert headers["proxy-authorization"] == f"Basic {word}"
        said = f'{{"error": {{"message": "Basic {word} {PASSWORD}"}}}}'.encode()
        kind = "Content-Type: application/json\r\n"
        await connection.answer(said, status="407 Who Are You", headers=kind)

    provider = SHIPPED["openai_conversations"]
    async with serve(refuse) as server:
        for port in (server.port, 9):
            proxy = f"http://user:{PASSWORD}@localhost:{port}"
            async with access(provider, "http://127.0.0.1:9", tmp_path, proxy=proxy) as model:
                assert find_secrets(await show_exchange(model)) == []
    for wrong in (f"http://user:{PASSWORD}@host:port", f"socks5://user:{PASSWORD}@host"):
        try:
            async with access(provider, "http://127.0.0.1:9", tmp_path, proxy=wrong) as model:
                shown = await show_exchange(model)
        except ConfigurationError as error:
            shown = f"{error!r}"
        assert "ConfigurationError" in shown
        assert find_secrets(shown) == []
    assert find_secrets(show_logs(logs)) == []


@pytest.mark.slow
@pytest.mark.parametrize("key", [f"{KEY} {KEY}", f"{KEY}ü", f"{KEY}\n{KEY}"])
async def test_what_is_no_key_is_not_shown(key: str, tmp_path: Path) -> None:
    """Also not by the variables of a traceback."""
    for name, provider in SHIPPED.items():
        model = await _access_quietly(provider, tmp_path / name, key)
        if model is not None:
            shown = await show_exchange(model)
            assert "Invalid key" in shown
            assert find_secrets(shown) == []


async def _access_quietly(
    provider: ShippedProvider, folder: Path, key: str
) -> ConverserModel | None:
    try:
        return await provider.access("http://127.0.0.1:9", folder, api_key=key)
    except ConverseError as error:
        assert KEY not in str(error)  # noqa: PT017  # Ollama asks at once
        return None


@pytest.fixture
def vibe(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Performs a command with a configuration, and looks for secrets in what it writes."""

    def run(tables: dict[str, Any], home: Path, *words: str) -> subprocess.CompletedProcess[str]:
        config = tmp_path / "config.toml"
        config.write_text(tomli_w.dumps({"providers": tables}))
        home.mkdir(exist_ok=True)
        done = subprocess.run(
            [*VIBE, *words],
            env=produce_environment(home, VIBE_LLMS_CONFIG=str(config), PYTHONFAULTHANDLER="1"),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert find_secrets(done.stdout + done.stderr) == [], words
        assert find_secrets(show_files(home)) == []
        return done

    return run


def tabulate(provider: ShippedProvider, url: str, key: str = KEY) -> dict[str, Any]:
    """Returns the table of a provider that keeps secrets."""
    return {
        "module": f"vibe_llms.providers.{provider.folder}",
        "base_url": url + provider.path,
        "api_key": key,
        "headers": {"x-private": HEADER},
    }


COMMANDED = [
    each
    for each in ("anthropic", "google", "ollama", "openai_responses", "mistral")
    if each in SHIPPED
]


@pytest.mark.slow
@pytest.mark.samples
@pytest.mark.parametrize("name", sample(COMMANDED))
def test_the_command_shows_no_secret(name: str, tmp_path: Path, vibe: Any) -> None:
    """Asking with a key that is right or wrong, and what it tells of a model and stores."""
    provider = SHIPPED[name]
    address = f"{name}:{provider.model}"
    with SynchronousSimulator(provider.simulate) as simulator:
        right, wrong = (tabulate(provider, simulator.url, key) for key in (KEY, f"wrong-{KEY}"))
        done = vibe({name: right}, tmp_path / "right", "ask", "-m", address, "Say something.")
        assert done.returncode == 0, done.stderr
        vibe({name: wrong}, tmp_path / "wrong", "ask", "-m", address, "Say something.")
        vibe({name: right}, tmp_path / "right", "models", "show", address)
        assert [path for path in (tmp_path / "right").rglob("*") if path.is_file()]


@pytest.mark.slow
@pytest.mark.parametrize("words", [("config", "show"), ("providers",), ("models",)], ids=" ".join)
@pytest.mark.parametrize("key", [KEY, f"wrong-{KEY}"], ids=["right", "wrong"])
def test_no_list_shows_a_secret(
    words: tuple[str, ...], key: str, tmp_path: Path, vibe: Any
) -> None:
    """Of all providers at once."""
    with SynchronousSimulator() as simulator:
        tables = {name: tabulate(SHIPPED[name], simulator.url, key) for name in COMMANDED}
        assert vibe(tables, tmp_path / "home", *words).stdout
