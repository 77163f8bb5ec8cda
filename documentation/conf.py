"""How the documentation is built: ``sphinx-build -W documentation documentation/_build``."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "sources")]

from vibe_llms import __version__  # noqa: E402

project = "vibe-llms"
project_copyright = "the vibe-llms authors"
version = release = __version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "extensions.from_code"]
exclude_patterns = ["_build", "changelog.d"]
default_role = "code"
nitpicky = False  # docstrings speak of types in plain words, too

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_class_signature = "separated"
autodoc_default_options = {"exclude-members": "__init__, __new__"}
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "alabaster"
html_theme_options = {
    "description": "Converse with any language model.",
    "fixed_sidebar": True,
    "page_width": "1040px",
}
html_show_sphinx = False
html_show_copyright = False
