"""Settings of Sphinx for the documentation site: `make docs` builds it into `build/docs`."""

from __future__ import annotations

from importlib.metadata import version as version_of

project = "Springtide"
author = "The Springtide contributors"
project_copyright = "The Springtide contributors, BSD-3-Clause"
release = version_of("springtide")
version = release

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["pictures"]

myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_mock_imports = ["airflow"]
autodoc_typehints = "signature"
default_role = "code"
python_use_unqualified_type_names = True

html_theme = "pydata_sphinx_theme"
html_title = "Springtide"
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_show_sourcelink = False
