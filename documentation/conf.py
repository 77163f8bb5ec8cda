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

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "extensions.docstrings",
    "extensions.from_code",
]
exclude_patterns = ["_build", "changelog.d"]
default_role = "code"
nitpicky = False  # docstrings speak of types in plain words, too

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_class_signature = "separated"
autodoc_default_options = {"exclude-members": "__init__, __new__"}
autodoc_type_aliases = {  # a union is shown by its name
    name: name
    for name in (
        *("AnyCanister", "ModelCanister", "AnyContent", "MediaContent", "Input", "Tool"),
        *("AnyEvent", "ConversationEvent", "StreamEvent", "EngineEvent", "FlowEvent"),
        *("LogEvent", "RunEvent", "OutsideEvent", "Statement", "Part"),
        *("JsonObject", "JsonValue"),
    )
}
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

copybutton_exclude = ".linenos, .gp, .go"  # the prompt and what a command prints stay behind

html_theme = "furo"
html_title = "vibe-llms"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "top_of_page_buttons": ["view"],
    "light_css_variables": {
        "color-brand-primary": "#7a3e00",
        "color-brand-content": "#8a4b08",
        "font-stack": "system-ui, sans-serif",
    },
    "dark_css_variables": {
        "color-brand-primary": "#ffb86b",
        "color-brand-content": "#ffc98f",
    },
}
pygments_style = "tango"
pygments_dark_style = "github-dark"
html_show_sphinx = False
html_show_copyright = False
