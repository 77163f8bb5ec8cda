"""What never ends, or waits for ever, is an error like any other."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from vibe_llms.files import open_regular, read_beginning, read_file, read_regular


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


def test_a_device_without_an_end_is_an_error() -> None:
    """Where a file is expected at once, else beyond the limit; `/dev/null` has an end."""
    with pytest.raises(OSError, match="a device"):
        open_regular("/dev/zero")
    with pytest.raises(OSError, match="more than 1000 bytes"):
        read_file("/dev/zero", 1000)
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
