"""What never ends, or waits for ever, is an error like any other."""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from vibe_llms.foundation.files import (
    expand_home,
    open_regular,
    read_beginning,
    read_file,
    read_regular,
    read_secret,
    replace_file,
    resolve_links,
    write_file,
)


def test_a_file_is_read(tmp_path: Path) -> None:
    """Whole, up to a limit, or its beginning."""
    path = tmp_path / "a"
    path.write_bytes(b"12345")

    assert read_regular(str(path)) == b"12345"
    assert read_file(path, 5) == b"12345"
    assert read_beginning(path, 3) == b"123"
    with pytest.raises(OSError, match="more than 4 bytes"):
        read_file(path, 4)


@pytest.mark.parametrize("read", [open_regular, read_regular, read_file])
def test_a_folder_and_a_pipe_that_nobody_writes_to_are_errors(read: object, tmp_path: Path) -> None:
    """Nobody waits for them."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    for path in (pipe, tmp_path):
        with pytest.raises(OSError, match=r"directory|pipe"):
            read(str(path))  # type: ignore[operator]


@pytest.mark.parametrize("place", ["~nobody-has-this-name/a", "a~b", "/a/~/b"])
def test_only_a_home_that_is_known_replaces_its_sign(place: str) -> None:
    """As in a shell; the path of another one is that of a missing file."""
    assert expand_home(place) == Path(place)
    assert expand_home("~/a") == Path.home() / "a"


def test_a_loop_of_links_is_a_path_like_any_other(tmp_path: Path) -> None:
    """Whoever opens it is told; links that lead to a file are followed."""
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "link").symlink_to("file")

    assert resolve_links(tmp_path / "loop").name == "loop"
    assert resolve_links(tmp_path / "link") == tmp_path / "file"


def test_a_secret_that_does_not_read_is_in_no_error(tmp_path: Path) -> None:
    """Not in the error's cause either, which a log would show."""
    path = tmp_path / "key"
    path.write_bytes(b" sk-1\n")
    assert read_secret(path) == "sk-1"
    path.write_bytes(b"sk-\xff")
    os.mkfifo(tmp_path / "pipe")

    for name, reason in (("key", "not UTF-8"), ("pipe", "no writer"), ("none", "No such file")):
        with pytest.raises(ValueError, match=f"{name} cannot be read: .*{reason}") as caught:
            read_secret(tmp_path / name)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
def test_a_key_file_that_all_can_read_is_told_once_with_the_fix(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "key"
    path.write_text("sk-1")
    path.chmod(0o640)
    assert read_secret(path) == "sk-1"
    assert not caplog.records
    path.chmod(0o644)
    assert [read_secret(path), read_secret(path)] == ["sk-1", "sk-1"]
    [told] = [record.getMessage() for record in caplog.records]
    assert f"chmod 600 {path}" in told
    assert "sk-1" not in told


def test_a_device_without_an_end_is_an_error() -> None:
    """Where a file is expected at once, else beyond the limit; `/dev/null` has an end."""
    with pytest.raises(OSError, match="a device"):
        open_regular("/dev/zero")
    with pytest.raises(OSError, match="more than 1,000 bytes"):
        read_file("/dev/zero", 1000)
    with pytest.raises(OSError, match="a device with more than 20,000,000 bytes"):
        read_file("/dev/zero", 100_000_000)  # not read up to a limit that is for large files
    assert read_file("/dev/null") == b""


def test_what_a_program_writes_into_a_pipe_is_read() -> None:
    """As `<(command)` of a shell has it, however slowly it comes."""
    reading, writing = os.pipe()

    def write() -> None:
        for piece in (b"a" * 100_000, b"b"):
            os.write(writing, piece)
        os.close(writing)

    thread = threading.Thread(target=write)
    thread.start()
    assert read_file(f"/dev/fd/{reading}") == b"a" * 100_000 + b"b"
    thread.join()
    os.close(reading)


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("before", [b"old", None])
def test_a_file_is_replaced_or_stays_as_it_was(
    step: str, before: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk leaves the old file, or none, and nothing beside it; the error names it."""
    path = tmp_path / "a"
    if before is not None:
        path.write_bytes(before)

    def fail(*given: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises(OSError, match="No space left") as caught:
            replace_file(path, b"new")

    assert caught.value.filename == str(path)
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [before] * (before is not None)
    replace_file(path, b"new")
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"new"]


def test_a_disk_that_is_really_full_leaves_the_old_file(tmp_path: Path) -> None:
    """The kernel stops the write in the middle, as it does where the space ends."""
    path = tmp_path / "a"
    path.write_bytes(b"old")
    script = (
        "import sys; from vibe_llms.foundation.files import replace_file; "
        "replace_file(sys.argv[1], bytes(100_000))"
    )

    run = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000)),
        capture_output=True,
        check=False,
        text=True,
    )

    assert f"File too large: '{path}'" in run.stderr
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"old"]


def test_permissions_and_links_stay(tmp_path: Path) -> None:
    """Those of the file that was there; a new one has what the mask leaves, or what is asked."""
    file, link, new = tmp_path / "file", tmp_path / "link", tmp_path / "new"
    file.write_bytes(b"old")
    file.chmod(0o640)
    link.symlink_to("file")
    mask = os.umask(0o027)
    try:
        replace_file(link, b"1")
        replace_file(new, b"2")
    finally:
        os.umask(mask)

    assert link.is_symlink()
    assert file.read_bytes() == b"1"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file, new)] == [0o640, 0o640]
    replace_file(file, b"3", mode=0o600)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_what_has_no_name_of_its_own_is_written_into(tmp_path: Path) -> None:
    """A pipe that somebody reads, and a device; a pipe without a reader is not waited for."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="no reader") as caught:
        write_file(pipe, b"x")
    assert caught.value.filename == str(pipe)

    got: list[bytes] = []
    thread = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    thread.start()
    # Waits until the reader is there, and keeps it there: without a writer its end has come.
    writer = os.open(pipe, os.O_WRONLY)
    write_file(pipe, b"x" * 100_000)
    os.close(writer)
    thread.join()
    write_file("/dev/null", b"x")

    assert got == [b"x" * 100_000]
    assert [each.name for each in tmp_path.iterdir()] == ["pipe"]
    with pytest.raises(OSError, match="No space left") as caught:
        write_file("/dev/full", b"x")
    assert caught.value.filename == "/dev/full"
    with pytest.raises(IsADirectoryError):
        write_file(tmp_path, b"x")


def test_standard_output_that_is_a_file_goes_on(tmp_path: Path) -> None:
    """``/dev/stdout`` is written into, whatever it leads to: what is in the file stays."""
    script = "from vibe_llms.foundation.files import write_file; write_file('/dev/stdout', b'more')"
    path = tmp_path / "out"
    path.write_text("before, ")

    with path.open("a") as output:
        subprocess.run([sys.executable, "-c", script], stdout=output, check=True)

    assert path.read_text() == "before, more"
