"""The package is the same however it was installed: from a wheel, editable, or not at all.

The wheels are built by the project's own build backend, called as pip calls it, and unpacked as
an installer does it; the libraries that the package needs are lent by this environment.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

REPORT = """
import json, pathlib, sys
import vibe_llms
from vibe_llms.foundation import package_data
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.models.catalogue import Catalogue

data = package_data.access_data_directory()
files = sorted(str(path.relative_to(data)) for path in data.rglob("*") if path.is_file())
attributes = Catalogue().access_integrator("local").integrate("smollm2")
print(json.dumps({
    "package": str(pathlib.Path(vibe_llms.__file__).parent),
    "data": str(data),
    "files": files,
    "version": vibe_llms.__version__,
    "providers": sorted(load_configuration(environment={"HOME": "."}).providers),
    "capability": str(attributes.genus),
}))
"""


def build(hook: str, folder: Path) -> Path:
    """Lets the backend build a wheel, by the hook that pip calls; returns where it is."""
    program = f"import sys, hatchling.build as backend; print(backend.{hook}(sys.argv[1]))"
    outcome = subprocess.run(
        [sys.executable, "-B", "-c", program, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    return folder / outcome.stdout.splitlines()[-1]


def install(wheel: Path, site: Path) -> None:
    """Unpacks a wheel, as an installer does with one that is pure Python."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)


def report(folder: Path, *sites: Path) -> dict[str, object]:
    """Asks a Python that sees only these sites, and borrowed libraries, what it finds."""
    libraries = sysconfig.get_path("purelib")
    program = "import site, sys\n" + "".join(f"site.addsitedir({str(each)!r})\n" for each in sites)
    program += f"sys.path.append({libraries!r})\n{REPORT}"
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
    }
    outcome = subprocess.run(
        [sys.executable, "-S", "-B", "-c", program],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    answer: dict[str, object] = json.loads(outcome.stdout)
    return answer


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What is found when the sources are merely put on the path."""
    return report(tmp_path_factory.mktemp("checkout"), ROOT / "sources")


@pytest.mark.slow
def test_a_wheel_carries_its_data(tmp_path: Path, checkout: dict[str, object]) -> None:
    """Installed from a wheel the data lie inside the package, and are those of the checkout."""
    site = tmp_path / "site"
    install(build("build_wheel", tmp_path), site)

    found = report(tmp_path, site)

    assert found["data"] == str(site / "vibe_llms" / "data")
    same = {name: checkout[name] for name in ("files", "version", "providers", "capability")}
    assert {name: found[name] for name in same} == same


@pytest.mark.slow
def test_an_editable_install_points_at_the_checkout(
    tmp_path: Path, checkout: dict[str, object]
) -> None:
    """Installed editable the package and its data are the checkout's own."""
    site = tmp_path / "site"
    install(build("build_editable", tmp_path), site)

    assert report(tmp_path, site) == checkout


@pytest.mark.slow
def test_a_wheel_has_what_it_should(tmp_path: Path) -> None:
    """A wheel carries the package, its mark of being typed, the licence and the command."""
    names = zipfile.ZipFile(build("build_wheel", tmp_path)).namelist()
    endings = {name.partition(".dist-info/")[2] for name in names}

    assert "vibe_llms/py.typed" in names
    assert {"METADATA", "entry_points.txt", "licenses/LICENSE"} <= endings
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"vibe_llms"}
    assert not [name for name in names if re.search(r"__pycache__|(^|/)\.\w+_cache/", name)]
