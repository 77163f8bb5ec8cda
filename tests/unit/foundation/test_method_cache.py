"""Compiled methods of attrs classes are kept from one process to the next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vibe_llms.foundation.method_cache import MethodCache

pytestmark = pytest.mark.slow

_PROBE = """
import builtins, inspect, sys
from vibe_llms.foundation import method_cache
real, compiled = compile, []

def count(source, filename, mode, *rest, **more):
    if "attrs generated" in str(filename) and "vibe_llms" in str(filename):
        compiled.append(filename)
    return real(source, filename, mode, *rest, **more)

builtins.compile = count
from vibe_llms import UserCanister
from vibe_llms.foundation.limits import Limits
print(len(compiled), Limits(run_steps=3).run_steps, inspect.signature(Limits), file=sys.stdout)
print([UserCanister("Hi").content[0].text, repr(Limits(run_steps=3))])
"""
_SOURCE = "def __init__(self, a):\n    self.a = a\n"
_NAME = "<attrs generated methods vibe_llms.x.A>"


def _probe(folder: Path, *options: str, **more: str) -> list[str]:
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder), **more}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    finished = subprocess.run(
        [sys.executable, *options, "-c", _PROBE], env=environment, capture_output=True, check=True
    )
    return finished.stdout.decode().splitlines()


def _count(said: list[str]) -> int:
    return int(said[0].split()[0])


def test_a_second_process_compiles_no_methods(tmp_path: Path) -> None:
    """Its classes are the same, signatures included."""
    first, second = _probe(tmp_path), _probe(tmp_path)

    assert _count(first) > 20
    assert _count(second) == 0
    assert first[1] == second[1]
    assert first[0].split(" ", 1)[1] == second[0].split(" ", 1)[1]


def test_nothing_is_written_where_python_writes_no_byte_code(tmp_path: Path) -> None:
    _probe(tmp_path, "-B")

    assert not list(tmp_path.rglob("*.methods"))


def test_a_file_with_a_changed_byte_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "file"
    cache = MethodCache(str(path))
    cache(_SOURCE, _NAME, "exec")
    cache.write()
    whole = path.read_bytes()

    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert MethodCache(str(path))._codes == {}
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("damage", [b"", b"not byte code", None])
def test_a_damaged_file_costs_only_time(tmp_path: Path, damage: bytes | None) -> None:
    _probe(tmp_path)
    (file,) = tmp_path.rglob("*.methods")
    file.write_bytes(file.read_bytes()[:-99] if damage is None else damage)

    assert _count(_probe(tmp_path)) > 20
    assert _count(_probe(tmp_path)) == 0


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    cache = MethodCache(str(tmp_path / "absent" / "file"))
    cache(_SOURCE, _NAME, "exec")
    cache.write()

    assert not (tmp_path / "absent").exists()


def test_another_source_of_the_same_class_is_compiled(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    first = MethodCache(path)
    first(_SOURCE, _NAME, "exec")
    first.write()
    held: dict[str, object] = {}
    exec(MethodCache(path)(_SOURCE.replace("= a", "= -a"), _NAME, "exec"), held)
    made = type("A", (), {"__init__": held["__init__"]})

    assert made(3).a == -3


def test_what_two_processes_compile_is_kept(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    one, two = MethodCache(path), MethodCache(path)
    one(_SOURCE, _NAME, "exec")
    two(_SOURCE, _NAME.replace("A>", "B>"), "exec")
    one.write()
    two.write()

    assert len(MethodCache(path)._codes) == 2
