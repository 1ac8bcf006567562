"""Broken and clumsy submissions, each a few lines that change a right one, with what it must lead to."""

from clumsy import archives, cells, files, running, sources_and_formats
from clumsy.making import CLUMSY, FULL, spoilt, zipped

__all__ = ["CLUMSY", "FULL", "archives", "cells", "files", "running", "sources_and_formats", "spoilt", "zipped"]
