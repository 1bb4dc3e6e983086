"""Configuration of the documentation site, which ``make docs`` builds with Sphinx from this folder."""

from __future__ import annotations

import importlib.metadata

project = "flip27-stream"
author = "The flip27-stream authors"
release = importlib.metadata.version("flip27-stream")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinxcontrib.mermaid",
]
exclude_patterns = ["conf.py"]
html_theme = "furo"
html_title = f"{project} {release}"

# Pages are written for GitHub: anchors are its, and a fence of mermaid is a picture.
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]

# The reference shows what a name is called where users import it, not where it is defined.
add_module_names = False
autoclass_content = "class"
autodoc_default_options = {"members": True, "member-order": "bysource", "show-inheritance": True}
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
autodoc_type_aliases = {"JsonValue": "JsonValue"}
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
