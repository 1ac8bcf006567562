"""The one small change that makes a wrong answer right: `search` tries it on the answer's own source."""

from attnlib.checks.naming.one_change.kinds import CHANGES
from attnlib.checks.naming.one_change.search import one_change

__all__ = ["CHANGES", "one_change"]
