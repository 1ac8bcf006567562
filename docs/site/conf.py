"""Sphinx's settings for `make site`: no execution, no server, no font or script from elsewhere."""

import sys
from importlib.resources import files
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

root_doc = "course"  # the first page is no document, and lies in `front`, as the page to try does
templates_path = ["templates"]
project = "Attention from scratch"
author = "The authors of Attention from scratch"
extensions = ["myst_nb", "gallery", "pages"]
nb_execution_mode = "off"  # the figures are those of the executed solutions
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
html_theme = "sphinx_book_theme"
html_title = project
html_favicon = "static/favicon.svg"
html_theme_options = {
    "use_download_button": False,
    "use_fullscreen_button": False,
    "home_page_in_toc": True,
    "show_toc_level": 2,
    "navbar_persistent": [],
}
html_context = {"default_mode": "auto"}
html_sidebars = {"**": ["home.html", "icon-links.html", "search-button-field.html", "sbt-sidebar-nav.html"]}
html_css_files = ["site.css"]
html_copy_source = False
html_static_path = ["static", str(files("jupyter_server_mathjax") / "static")]
mathjax_path = "MathJax.js?config=TeX-AMS-MML_HTMLorMML-full,Safe"
fonts = {"availableFonts": [], "imageFont": None, "preferredFont": None, "webFont": "STIX-Web"}
fonts["linebreaks"] = {"automatic": True, "width": "90% container"}  # on a phone
# MyST marks a page to be left alone, and its formulas to be processed, for MathJax 3 only
formulas = {"processClass": "math|output_area"}
mathjax2_config = {"showMathMenu": False, "messageStyle": "none", "HTML-CSS": fonts, "tex2jax": formulas}


def setup(app):  # noqa: D103
    app.connect("config-inited", lambda app, config: config.html_extra_path.append(str(app.srcdir / "front")))
