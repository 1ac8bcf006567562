"""Shapes are enforced: jaxtyping's annotations in attnlib are checked by beartype while the tests run."""

import os

os.environ.setdefault("MPLBACKEND", "Agg")

from jaxtyping import install_import_hook

install_import_hook("attnlib", "beartype.beartype").install()
