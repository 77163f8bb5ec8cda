"""Disks for tests of stores: fast ones, and ones that track unsynchronized data or crash."""

from __future__ import annotations

from collections.abc import Callable
from io import FileIO
from pathlib import Path

from vibe_llms.logs.disk import Disk


class HastyDisk(Disk):
    """Disk without synchronization, which takes long and matters only at a power failure."""

    def synchronize(self, descriptor: int) -> None:
        pass

    def synchronize_folder(self, path: str) -> None:
        pass


class Ledger(Disk):
    """Disk that tracks bytes and folder entries that a power failure would lose."""

    def __init__(self) -> None:
        self.paths: dict[int, str] = {}
        self.owed: set[str] = set()

    def create(self, path: str) -> FileIO:
        file = super().create(path)
        self.paths[file.fileno()] = path
        self.owed.add(str(Path(path).parent))
        return file

    def open_to_append(self, path: str) -> FileIO:
        file = super().open_to_append(path)
        self.paths[file.fileno()] = path
        return file

    def write(self, descriptor: int, data: bytes) -> None:
        super().write(descriptor, data)
        self.owed.add(self.paths[descriptor])

    def truncate(self, descriptor: int, size: int) -> None:
        super().truncate(descriptor, size)
        self.owed.add(self.paths[descriptor])

    def synchronize(self, descriptor: int) -> None:
        super().synchronize(descriptor)
        self.owed.discard(self.paths[descriptor])

    def synchronize_folder(self, path: str) -> None:
        super().synchronize_folder(path)
        self.owed.discard(path)

    def make_folder(self, path: str) -> None:
        super().make_folder(path)
        self.owed.add(str(Path(path).parent))

    def rename(self, source: str, target: str) -> None:
        owed = [each for each in self.owed if each == source or each.startswith(f"{source}/")]
        assert not owed, f"renamed before their bytes were synchronized: {owed}"
        if "/.deleting/" in source:
            is_synchronized = str(Path(source).parent) not in self.owed
            assert is_synchronized, "a fork changed before its parent's deletion was synchronized"
        super().rename(source, target)
        # The source is a folder for unfinished work, whose entries may reappear after a crash.
        self.owed.add(str(Path(target).parent))

    def settle(self) -> set[str]:
        """Return unsynchronized paths at an acknowledgement, without folders of unfinished work."""
        return {
            path
            for path in self.owed
            if "/.creating" not in path and "/.deleting" not in path and Path(path).exists()
        }


class Crash(BaseException):
    """The machine stopped."""


class CrashingDisk(HastyDisk):
    """Disk that fails before a step, as if the machine stopped; later steps fail, too."""

    def __init__(self, steps: int) -> None:
        self.steps = steps


def _make_crash(name: str) -> Callable[..., object]:
    original = getattr(HastyDisk, name)

    def step(self: CrashingDisk, *args: object) -> object:
        self.steps -= 1
        if self.steps == 0 and name in ("write", "overwrite_start"):
            place, data = args
            original(self, place, data[: len(data) // 2])  # type: ignore[index]
        if self.steps <= 0:
            raise Crash(name)
        return original(self, *args)

    return step


for _name in [
    "create",
    "write",
    "overwrite_start",
    "truncate",
    "synchronize",
    "synchronize_folder",
    "rename",
    "make_folder",
    "remove",
    "remove_folder",
    "touch",
]:
    setattr(CrashingDisk, _name, _make_crash(_name))
