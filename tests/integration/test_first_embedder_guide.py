"""The files of the guide for embedders; tests/examples runs the page itself."""

from __future__ import annotations

import re
import textwrap
import tomllib
from pathlib import Path

from vibe_llms.plugins.plugin_templates import make_plugin

GUIDE = Path(__file__).parents[2] / "documentation" / "authors" / "first-embedder.rst"


def test_the_files_of_the_guide_are_those_that_are_made(tmp_path: Path) -> None:
    """The attributes differ in the date only."""
    made = make_plugin("heron", "embedder", tmp_path)
    guide = GUIDE.read_text(encoding="utf-8")
    sources = tmp_path / "heron" / "sources" / "vibe_heron"
    module = (sources / "__init__.py").read_text(encoding="utf-8")
    attributes = (sources / "models" / "attributes.toml").read_text(encoding="utf-8")

    assert textwrap.indent(module, "   ") in guide
    dated = re.sub(r"^date = .*$", "date = 2026-11-29", attributes, flags=re.MULTILINE)
    assert textwrap.indent(dated, "   ") in guide
    for file in made:
        assert str(file.relative_to(tmp_path)) in guide


def test_names_are_filled_in_everywhere(tmp_path: Path) -> None:
    """A name with a hyphen makes a valid module, class and variable."""
    made = make_plugin("my-heron", "embedder", tmp_path)
    texts = {file.name: file.read_text(encoding="utf-8") for file in made}

    compile(texts["__init__.py"], "__init__.py", "exec")
    assert "class MyHeronVendor(CallVendor):" in texts["__init__.py"]
    assert '"MY_HERON_API_KEY"' in texts["__init__.py"]
    assert 'module = "vibe_my_heron"' in texts["test_vibe_my_heron.py"]
    assert tomllib.loads(texts["attributes.toml"])["defaults"] == {"genus": "embedder"}
    assert not [name for name, text in texts.items() if re.search("NAME|VARIABLE|TODAY", text)]
