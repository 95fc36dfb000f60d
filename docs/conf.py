"""Configuration of the documentation; it builds without a network."""

import os
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
os.environ.setdefault("MPLBACKEND", "Agg")
# The examples are small: on a busy machine OpenMP's threads wait for each other many times longer.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import skml  # noqa: E402

project = "skml"
author = "skml developers"
copyright = "skml developers, BSD-3-Clause"
version = release = skml.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "mathml",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "api_pages",
    "external_links",
    "method_table",
    "result_pages",
]
exclude_patterns = ["_build", "_ext", "**/README.rst", "**/GALLERY_HEADER.rst"]
templates_path = []
root_doc = "index"
default_role = "py:obj"
nitpicky = False

# Pages are written by api_pages; summaries only list them.
autosummary_generate = False
autodoc_member_order = "alphabetical"
autodoc_typehints = "none"
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "auto_examples",
    # Only plot_*.py belongs to the gallery; the demo and the reproductions have their own commands.
    "filename_pattern": r"[\\/]plot_",
    "ignore_pattern": r"(^|[\\/])(?!plot_)[^\\/]*\.py$",
    "backreferences_dir": str(Path("api") / "generated" / "backreferences"),
    "doc_module": ("skml",),
    "abort_on_example_error": True,
    "write_computation_times": False,
    "show_signature": False,
    "download_all_examples": False,
    "reset_modules": ("matplotlib",),
    "min_reported_time": 1,
}

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = f"skml {release}"
html_static_path = ["_static"]
html_css_files = ["skml.css"]
html_favicon = "_static/skml.svg"
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_prev_next": False,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
# Pages that have none below them: an empty sidebar would only take their width.
html_sidebars = {
    page: []
    for page in (
        "index",
        "install",
        "getting_started",
        "which_method",
        "paper_versus_measured",
        "benchmarks",
        "faq",
    )
}

# matplotlib's note that Agg cannot show a figure says nothing about an example.
warnings.filterwarnings("ignore", message=".*FigureCanvasAgg is non-interactive.*")
