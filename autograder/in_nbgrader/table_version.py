"""The version of a new gradebook's tables. nbgrader starts `alembic` to ask for it, which takes more than a second."""

from functools import cache

import nbgrader.api
from nbgrader.dbutil import ALEMBIC_DIR


def look_up_in_process() -> None:
    """Let nbgrader find the version in this process; a second call changes nothing."""
    nbgrader.api.get_alembic_version = newest


@cache
def newest() -> str | None:
    """Return the newest version of the tables, as `alembic heads` does."""
    from alembic.config import Config  # only then: few commands make a gradebook
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", ALEMBIC_DIR)
    return ScriptDirectory.from_config(config).get_current_head()
