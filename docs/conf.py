"""Configures the site of these pages: `make docs` builds it to out/docs/index.html, and nothing in it needs a network."""

import logging
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]  # the packages of this checkout, and the extension

import ctrnn  # noqa: E402

project = "ctrnn"
version = release = ctrnn.__version__
extensions = ["myst_nb", "sphinx.ext.viewcode", "sphinx.ext.intersphinx", "sphinx_copybutton", "extensions.site"]
exclude_patterns = ["explorer", "extensions", "tables"]

# The doors, and what is behind each. Files stay where they are, so that links also work where no site is.
trees = {
    "index": "install learn/index do/index look-up/index understand/index",
    "learn/index": "learn/first you-have-a-ctrnn learn/irregular learn/table learn/gru learn/prove papers "
    "learn/exact-or-stepped learn/* "
    "fitting slurm notebooks/* gallery",
    "do/index": "do/* discretization steps compare sequences live solves dynamics training estimators torch latent-sde "
    "torchdiffeq",
    "look-up/index": "look-up/* names api/command what-goes-with-what cells tasks notation derivations checker studies promises "
    "references project/readme project/changelog project/contributing",
    "understand/index": "understand/* time-steps noise delays timescales symbols riemannian neuroscience speed kernels judges",
    "papers": "papers/*",
    "studies": "studies/*",
    "derivations": "derivations/*",
}

nb_execution_mode = "off"  # the tests run the notebooks
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 4
smartquotes = False
maximum_signature_line_length = 88

# Names of torch and NumPy lead to their sites; where there is no network they are text, and nothing is said.
intersphinx_mapping = {
    "torch": ("https://docs.pytorch.org/docs/stable/", None),
    "numpy": ("https://numpy.org/doc/stable/", None),
}
intersphinx_timeout = 5
logging.getLogger("sphinx.sphinx.ext.intersphinx").addFilter(lambda record: "failed to reach" not in str(record.msg))

pygments_dark_style = "github-dark"

html_theme = "furo"
html_title = f"ctrnn {version}"
html_math_renderer = "mathml"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
