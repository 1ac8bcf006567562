"""Shapes are enforced: the jaxtyping annotations of attnlib's modules are checked by beartype while the tests run."""

import os
import pkgutil
from pathlib import Path

from jaxtyping import install_import_hook

os.environ.setdefault("MPLBACKEND", "Agg")

ROOT = Path(__file__).resolve().parent.parent
MODULES = [f"attnlib.{m.name}" for m in pkgutil.iter_modules([str(ROOT / "attnlib")]) if not m.ispkg]

install_import_hook(MODULES, "beartype.beartype")
