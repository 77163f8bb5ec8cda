"""Servers that we start: found, waited for, shared, and never left behind."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import psutil
import pytest

from vibe_llms.exceptions import ConverseError, DependencyError
from vibe_llms.providers import children
from vibe_llms.providers.children import ChildServer, ChildSettings

SERVER = """
import http.server, os, subprocess, sys, time
print("listening at", sys.argv[1], flush=True)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/die":
            os._exit(3)
        if self.path == "/talk":
            sys.stdout.write("words\\n" * 200000)
            sys.stdout.flush()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(os.getpid()).encode() + b" " + os.environ["STAND_IN"].encode())
    def log_message(self, *given):
        pass
"""
SERVE = 'http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()\n'
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
WITH_CHILD = (
    'print("child", subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid,'
    " flush=True)\n"
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="processes are watched by their ids")


@attrs.define
class Shown:
    """Progress that is written down."""

    heard: list[str] = attrs.field(factory=list)

    def start(self, total: int | None, label: str) -> None:
        self.heard.append(label)

    def advance(self, amount: int) -> None: ...

    def finish(self) -> None:
        self.heard.append("finish")


@pytest.fixture
def shown() -> Shown:
    return Shown()


@pytest.fixture
def produce(
    tmp_path: Path, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., ChildServer]]:
    """Makes a server of a program of a few lines, which stands on the path as ``stand-in``."""
    made: list[ChildServer] = []
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory), prepend=os.pathsep)

    def make(body: str = SERVE, **settings: Any) -> ChildServer:
        program = directory / "stand-in"
        program.write_text(f"#!{sys.executable}\n{SERVER}{body}")
        program.chmod(0o755)
        whole = ChildSettings(
            name="example",
            command=("stand-in", "{port}"),
            environment={"STAND_IN": "at {port}"},
            log_path=tmp_path / "cache" / "server.log",
            **settings,
        )
        made.append(ChildServer(whole, shown))
        return made[-1]

    yield make
    for child in made:
        child.stop()


def ask(url: str, path: str = "/") -> str:
    with urllib.request.urlopen(url + path, timeout=60) as answer:
        text: str = answer.read().decode()
    return text


def is_running(process_id: int) -> bool:
    """Tells whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_until_gone(process_id: int) -> bool:
    deadline = time.monotonic() + 60
    while is_running(process_id) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_running(process_id)


def wait_until_silent(url: str) -> bool:
    deadline = time.monotonic() + 60
    with contextlib.suppress(urllib.error.URLError, ConnectionError):
        while time.monotonic() < deadline:
            ask(url)
        return False
    return True


@pytest.mark.slow
async def test_a_server_is_started_once_and_stopped(produce: Callable[..., ChildServer]) -> None:
    """All who ask at once share one process; closing ends it, and asking again starts another."""
    child = produce()
    urls = await asyncio.gather(*(child.acquire() for _ in range(5)))

    assert len(set(urls)) == 1
    process, _, environment = ask(urls[0]).partition(" ")
    assert environment == f"at {urls[0].rpartition(':')[2]}"
    await child.close()
    await child.close()
    assert wait_until_gone(int(process))
    assert ask(await child.acquire())


async def test_a_program_that_is_missing_is_named(produce: Callable[..., ChildServer]) -> None:
    """The error says what was looked for, and how to get it."""
    child = ChildServer(
        ChildSettings(
            name="example",
            command=("no-such-program-anywhere",),
            log_path=Path("/nowhere"),
            remedy="Install it.",
        ),
        Shown(),
    )

    with pytest.raises(DependencyError, match=r"no-such-program-anywhere.*Install it\."):
        await child.acquire()


async def test_a_server_that_dies_at_once_says_its_last_words(
    produce: Callable[..., ChildServer],
) -> None:
    """Its own words tell more than we could; all of them are in the log."""
    child = produce('sys.exit("no memory for the model")\n')

    with pytest.raises(ConverseError, match="no memory for the model") as caught:
        await child.acquire()
    log = str(caught.value).rpartition(" ")[2].rstrip(".")
    assert "no memory for the model" in Path(log).read_text()


@pytest.mark.slow
async def test_a_server_that_never_becomes_ready_is_given_up(
    produce: Callable[..., ChildServer], shown: Shown
) -> None:
    """The deadline holds, the user saw that it takes long, and nothing is left running."""
    before = set(psutil.Process().children(recursive=True))
    child = produce("time.sleep(600)\n", startup_seconds=1.3)

    starting = asyncio.create_task(child.acquire())
    while not (begun := set(psutil.Process().children(recursive=True)) - before):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    with pytest.raises(ConverseError, match=r"not ready within 1\.3 seconds"):
        await starting
    assert shown.heard == ["Starting stand-in", "finish"]
    assert all(wait_until_gone(each.pid) for each in begun)


async def test_closing_ends_a_start(produce: Callable[..., ChildServer]) -> None:
    """Whoever leaves does not wait for what will not be used."""
    child = produce("time.sleep(600)\n")
    starting = asyncio.create_task(child.acquire())
    await asyncio.sleep(0.3)

    await child.close()

    with pytest.raises(ConverseError, match="was stopped while it was starting"):
        await starting


@pytest.mark.slow
async def test_a_server_that_dies_is_started_again_once(
    produce: Callable[..., ChildServer],
) -> None:
    """One accident is made good; a habit is an error."""
    child = produce()
    for _ in range(2):
        url = await child.acquire()
        with pytest.raises(http.client.RemoteDisconnected):
            ask(url, "/die")
        assert await asyncio.to_thread(wait_until_dead, child)

    with pytest.raises(ConverseError, match="has died again"):
        await child.acquire()


def wait_until_dead(child: ChildServer) -> bool:
    assert child._running is not None
    deadline = time.monotonic() + 60
    while child._running.is_alive and time.monotonic() < deadline:
        time.sleep(0.02)
    return not child._running.is_alive


async def test_a_stubborn_server_is_killed_with_all_it_started(
    produce: Callable[..., ChildServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not end when asked is ended, and so are its own children."""
    monkeypatch.setattr(children, "GRACE_SECONDS", 0.3)
    child = produce(STUBBORN + WITH_CHILD + SERVE)
    await child.acquire()
    assert child._running is not None
    while not any(line.startswith("child ") for line in child._running.tail()):  # noqa: ASYNC110
        await asyncio.sleep(0.01)  # it may answer before all that it has said is read
    lines = child._running.tail()
    grandchild = next(line for line in lines if line.startswith("child ")).partition(" ")[2]
    assert is_running(int(grandchild))

    await child.close()

    assert wait_until_gone(int(grandchild))


async def test_the_log_is_bounded(
    produce: Callable[..., ChildServer], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A server may talk for years."""
    monkeypatch.setattr("vibe_llms.processes.outputs.LOG_BYTES", 10_000)
    child = produce()
    url = await child.acquire()
    await asyncio.to_thread(ask, url, "/talk")
    await child.close()

    assert 0 < (tmp_path / "cache" / "server.log").stat().st_size <= 10_000


@pytest.mark.slow
@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, None])
def test_no_server_outlives_us(
    blow: signal.Signals | None, produce: Callable[..., ChildServer], tmp_path: Path
) -> None:
    """However this process ends, killed or by itself, its server ends too."""
    produce()  # puts the program on the path
    code = f"""
import asyncio, sys, time
from pathlib import Path
from vibe_llms.providers.children import ChildServer, ChildSettings
settings = ChildSettings(name="e", command=("stand-in", "{{port}}"), log_path=Path("{tmp_path}/l"),
                         environment={{"STAND_IN": ""}})
print(asyncio.run(ChildServer(settings, None).acquire()), flush=True)
if {blow is not None}:
    time.sleep(600)
"""
    command = [sys.executable, "-c", code]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert parent.stdout is not None
    with parent.stdout as output:
        url = output.readline().strip()
        if blow is not None:
            process = int(ask(url))
            parent.send_signal(blow)
            parent.wait(60)
            assert wait_until_gone(process)
        else:
            parent.wait(60)
            assert wait_until_silent(url)
