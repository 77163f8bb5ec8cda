"""Attempts to get out of the directories that are granted to ``io``; all of them fail."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.runs.invoking import connect_ensembles
from vibe_llms.invocables import InvocationContext
from vibe_llms.invocables.shipped.io.ensemble import IoEnsemble
from vibe_llms.invocables.shipped.io.settings import IoSettings

CANARY = "canary-of-outside"


class World:
    """A granted directory beside others that are not, with every kind of way between them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.inside, self.outside = home / "inside", home / "outside"
        for directory in (self.inside / "a" / "b", self.outside / "deep", home / "inside2"):
            directory.mkdir(parents=True)
        for secret in (self.outside / "secret", self.outside / "deep" / "secret"):
            secret.write_text(CANARY)
        (home / "inside2" / "secret").write_text(CANARY)  # its name begins as the granted one's
        (self.inside / "secret").write_text("harmless")
        (self.inside / "a" / "b" / "file").write_text("harmless")
        links = {
            "up": "..",
            "out": "../outside",
            "out_file": "../outside/secret",
            "absolute": str(self.outside),
            "absolute_file": str(self.outside / "secret"),
            "root": "/",
            "proc": "/proc/self/root",
            "winding": "a/../../outside/secret",
            "chain": "out",
            "dangling": "../outside/new",
            "loop": "loop",
            "a/up": "../..",
            "a/b/back": str(self.inside),
            "home": "a/b/back/secret",
        }
        for name, target in links.items():
            (self.inside / name).symlink_to(target)

    def remember(self) -> dict[str, str]:
        """Returns all that is outside."""
        return {
            str(path): path.read_text() if path.is_file() else ""
            for path in sorted(self.home.rglob("*"))
            if not path.is_relative_to(self.inside)
        }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def io(world: World) -> Iterator[IoEnsemble]:
    """The ensemble, connected; its functions are called as the invokers call them."""
    ensemble = IoEnsemble(IoSettings(working_directory=world.inside))
    ensemble._grants.open()
    yield ensemble
    ensemble._grants.close()


def try_everything(io: IoEnsemble, path: str) -> str:
    """Does with a path all that can be done; returns all that was told."""
    from vibe_llms.invocables.refusals import explain_refusals

    context = InvocationContext()
    attempts = (
        (io.read_file, {"path": path}),
        (io.list_files, {"path": path, "depth": 9}),
        (io.search_files, {"path": path, "text": "canary"}),
        (io.edit_file, {"path": path, "old": CANARY, "new": "changed"}),
        (io.edit_file, {"path": path, "old": "can", "new": "changed"}),
        (io.write_file, {"path": path, "text": "written"}),
    )
    told = [
        explain_refusals(function)(context=context, **arguments) for function, arguments in attempts
    ]
    return "\n".join(each if isinstance(each, str) else each.text for each in told)


def ensure_nothing_escaped(world: World, io: IoEnsemble, path: str) -> None:
    before = world.remember()
    descriptors = len(list(Path("/dev/fd").iterdir()))

    told = try_everything(io, path)

    assert CANARY not in told
    assert world.remember() == before
    assert len(list(Path("/dev/fd").iterdir())) == descriptors


PARTS = st.sampled_from(
    [
        *("..", ".", "", "a", "b", "file", "secret", "up", "out", "out_file", "absolute", "root"),
        *("proc", "absolute_file", "winding", "chain", "dangling", "loop", "back", "home", "etc"),
        *("outside", "inside", "inside2", "deep", "new", "...", "~", "-", "%2e%2e", "..\\.."),
        *("\u2026", "\u2024\u2024"),
    ]
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(st.lists(PARTS, max_size=8), st.sampled_from(["", "/", "//", "inside:", "outside:"]))
def test_no_path_leads_out(world: World, io: IoEnsemble, parts: list[str], start: str) -> None:
    """However it goes up, down, along links and back; nothing outside is told or changed."""
    start = {"inside:": f"{world.inside}/", "outside:": f"{world.outside}/"}.get(start, start)

    ensure_nothing_escaped(world, io, start + "/".join(parts))


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.text(alphabet=st.characters(), max_size=40))
def test_no_text_leads_out(world: World, io: IoEnsemble, path: str) -> None:
    """Whatever characters it has, those included that no path can have."""
    ensure_nothing_escaped(world, io, path)


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret",
        "../inside2/secret",
        "up/outside/secret",
        "out/secret",
        "out_file",
        "chain/deep/secret",
        "absolute/secret",
        "absolute_file",
        "winding",
        "dangling",
        "a/up/../outside/secret",
        "a/b/back/../outside/secret",
        "proc/etc/passwd",
        "/etc/passwd",
        "/proc/self/environ",
        "/proc/self/cwd/../outside/secret",
        "/dev/fd/0",
        "a/../../outside/secret",
        "secret\0/../../outside/secret",
        "loop/x",
        "/".join([".."] * 400),
        "a/.." * 1_100 + "/../outside/secret",
        "x" * 5_000,
        "\ud800",
        "   ",
    ],
)
async def test_each_known_way_out_is_refused_in_words(world: World, path: str) -> None:
    """Of whatever kind: the model is told what is granted, and nothing else."""
    async with connect_ensembles(IoEnsemble(IoSettings(working_directory=world.inside))) as invoke:
        outcomes = [
            await invoke("read_file", path=path),
            await invoke("write_file", path=path, text="x"),
        ]

    for outcome in outcomes:
        assert outcome.is_error
        assert "Traceback" not in outcome.text
        assert "Error:" not in outcome.text
        assert len(outcome.text) < 1_000
    assert (world.outside / "secret").read_text() == CANARY


async def test_ways_that_stay_within_can_be_gone(tmp_path: Path) -> None:
    """Links and ``..`` are no crime: what they lead to counts, also from the absolute path."""
    world = World(tmp_path)
    async with connect_ensembles(IoEnsemble(IoSettings(working_directory=world.inside))) as invoke:
        for path in (
            "a/b/../../secret",
            "a/b/back/secret",
            "home",
            "up/inside/secret",
            f"{world.inside}/secret",
            "../inside/secret",
        ):
            assert (await invoke("read_file", path=path)).text == "harmless", path


@contextmanager
def swapping(first: Path, second: Path) -> Iterator[None]:
    """Exchanges two paths again and again, each time at once, from another thread."""
    exchange = getattr(ctypes.CDLL(None), "renameat2", None)
    stopped = threading.Event()

    def swap_once() -> bool:
        assert exchange is not None
        return exchange(-100, os.fsencode(first), -100, os.fsencode(second), 2) == 0

    def swap() -> None:
        while not stopped.is_set():
            swap_once()

    if exchange is None or not swap_once():
        pytest.skip("this system cannot exchange two paths at once")
    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("swapped", ["directory", "file"])
def test_whoever_swaps_what_is_opened_for_a_link_gains_nothing(
    tmp_path: Path, swapped: str
) -> None:
    """Between the look and the opening lies a moment; what it can change is no way out."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for directory in (inside / "d", outside):
        directory.mkdir(parents=True)
        (directory / "secret").write_text("harmless")
    (outside / "secret").write_text(CANARY)
    if swapped == "directory":
        real, link = inside / "d", inside / "link"
        link.symlink_to(outside)
    else:
        real, link = inside / "d" / "secret", inside / "d" / "link"
        link.symlink_to(outside / "secret")
    io = IoEnsemble(IoSettings(working_directory=inside))
    io._grants.open()
    told = []

    try:
        assert "harmless" in try_everything(io, "d/secret")  # while nobody swaps, it is not refused
        with swapping(real, link):
            for _ in range(100):
                told.append(try_everything(io, "d/secret"))
                told.append(try_everything(io, "d"))
    finally:
        io._grants.close()

    assert not [each for each in told if CANARY in each]
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_text() == CANARY


async def test_a_granted_directory_that_is_replaced_stays_the_one_that_was_granted(
    tmp_path: Path,
) -> None:
    """Its path may be made to lead elsewhere while the ensemble is connected."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for directory, text in ((inside, "harmless"), (outside, CANARY)):
        directory.mkdir()
        (directory / "secret").write_text(text)

    async with connect_ensembles(IoEnsemble(IoSettings(working_directory=inside))) as invoke:
        inside.rename(tmp_path / "moved")
        inside.symlink_to(outside)
        read = await invoke("read_file", path="secret")
        absolute = await invoke("read_file", path=str(inside / "secret"))

    assert (read.text, absolute.text) == ("harmless", "harmless")


async def test_what_is_granted_for_reading_is_not_written(tmp_path: Path) -> None:
    """By no way that leads there, also where it lies within what may be written."""
    for name in ("library", "work/vendored"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_text("before")
    (tmp_path / "work" / "link").symlink_to("vendored")
    (tmp_path / "work" / "file").symlink_to("../library/file")
    settings = IoSettings(
        working_directory=tmp_path,
        directories=("work",),
        read_only=("library", "work/vendored"),
    )

    async with connect_ensembles(IoEnsemble(settings)) as invoke:
        for path in (
            "vendored/file",
            "link/file",
            "file",
            "vendored/new",
            "vendored/new/file",
            "../library/file",
            str(tmp_path / "library" / "file"),
            str(tmp_path / "library" / "new"),
        ):
            written = await invoke("write_file", path=path, text="after")
            edited = await invoke("edit_file", path=path, old="before", new="after")
            assert (written.is_error, edited.is_error) == (True, True), path
            assert "read-only" in written.text
        allowed = await invoke("write_file", path="vendored/../new", text="x")
        read = await invoke("read_file", path=str(tmp_path / "library" / "file"))

    assert (allowed.text, read.text) == ("new was created: 1 bytes.", "before")
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {"library/file", "work/vendored/file", "work/file", "work/new"}
    assert (tmp_path / "library" / "file").read_text() == "before"


async def test_special_files_neither_wait_nor_are_replaced(tmp_path: Path) -> None:
    """A pipe that nobody writes, a socket, a device, a directory."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(tmp_path)  # as the path of a socket has to be short
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
        async with connect_ensembles(IoEnsemble(IoSettings(working_directory=tmp_path))) as invoke:
            for name in ("pipe", "directory", "socket"):
                for call, arguments in (
                    ("read_file", {}),
                    ("write_file", {"text": "x"}),
                    ("edit_file", {"old": "x", "new": "y"}),
                ):
                    outcome = await invoke(call, path=name, **arguments)
                    assert outcome.is_error
                    assert "not a file" in outcome.text
            searched = await invoke("search_files", text="x")
            listed = await invoke("list_files")

    assert searched.text == "[nothing found]"
    assert listed.text == "directory/\npipe  (a pipe)\nsocket  (a socket)"


@pytest.mark.parametrize(
    ("kind", "words"),
    [("pipe", "a is not a file (a pipe)."), ("link", "Cannot open a: Too many levels")],
)
async def test_what_takes_the_place_of_a_file_is_neither_waited_for_nor_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, words: str
) -> None:
    """Also where it does so after the file was looked at."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    (inside / "a").write_text("harmless")
    outside.write_text(CANARY)
    stat = os.stat

    def look_and_swap(*arguments: object, **options: object) -> os.stat_result:
        found = stat(*arguments, **options)  # type: ignore[arg-type]
        if arguments[0] == "a" and options.get("dir_fd"):
            (inside / "a").unlink()
            os.mkfifo(inside / "a") if kind == "pipe" else (inside / "a").symlink_to(outside)
        return found

    async with connect_ensembles(IoEnsemble(IoSettings(working_directory=inside))) as invoke:
        monkeypatch.setattr(os, "stat", look_and_swap)
        outcome = await invoke("read_file", path="a")
        monkeypatch.undo()

    assert outcome.is_error
    assert outcome.text.startswith(words)


async def test_a_tree_without_a_bottom_is_left_in_time(tmp_path: Path) -> None:
    """Deeper than the limit nothing is looked at, and no descriptors are used up."""
    deep = tmp_path
    for _ in range(120):
        deep /= "d"
        deep.mkdir()
    (deep / "needle").write_text("needle")

    async with connect_ensembles(IoEnsemble(IoSettings(working_directory=tmp_path))) as invoke:
        searched = await invoke("search_files", name="needle")
        read = await invoke("read_file", path="d/" * 120 + "needle")
        listed = await invoke("list_files", depth=1_000_000)

    assert searched.text == "[nothing found]\n[levels below 50 directories are not listed]"
    assert read.text.endswith("is deeper than 100 directories.")
    assert len(listed.text.splitlines()) == 51


async def test_after_the_end_of_the_ensemble_nothing_is_accessible(tmp_path: Path) -> None:
    """A call that comes late is refused, and opens nothing."""
    (tmp_path / "a").write_text("x")
    ensemble = IoEnsemble(IoSettings(working_directory=tmp_path))
    await ensemble.connect()
    await ensemble.disconnect()
    descriptors = len(list(Path("/dev/fd").iterdir()))

    told = try_everything(ensemble, "a")

    assert set(told.splitlines()) == {"The files are no longer accessible: the ensemble is closed."}
    assert len(list(Path("/dev/fd").iterdir())) == descriptors
