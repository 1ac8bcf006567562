"""The time a submission was handed in, by its timestamp.txt.

nbgrader's commands write that file, but into a folder that a student filled: it is only a claim. If the time of receipt
is known, that counts. Otherwise the claim is believed if it is a plausible time; anything else counts as having no
timestamp.txt at all, which nbgrader treats as in time, since a student could have removed the file. A remark says so,
and also if the notebook was changed after the time claimed.
"""

import os
import re
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dateutil.tz import gettz
from nbgrader.utils import parse_utc

from autograder.judging.intake.folder import TIMESTAMP, read_regular
from autograder.showing.errors import NotGraded

MOST_BYTES = 100
FORM = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?( ?((?P<zone>[A-Za-z]{1,5})|[+-]\d\d(:?\d\d)?))?")
EARLIEST = datetime(2000, 1, 1)
SLACK = timedelta(days=1)  # a time without a zone may be anybody's
COPYING = timedelta(hours=1)
SENDING = timedelta(minutes=2)
"""The time sending may take: a submission begun before the deadline is in time."""
ROUNDED = timedelta(seconds=1)  # nbgrader's claim has microseconds, a learning platform's table has none


def told_time(
    folder: Path, changed: datetime | None = None, now: datetime | None = None
) -> tuple[datetime | None, str]:
    """Return the time in timestamp.txt, in UTC and without a zone, or None; and in a clause what is doubtful about it.

    `changed` is when the notebook was last changed.
    """
    now = (now or datetime.now(UTC)).replace(tzinfo=None)
    if folder.is_symlink() or not os.path.lexists(folder / TIMESTAMP):
        return None, ""
    try:
        told = parse_time(read_regular(folder / TIMESTAMP, TIMESTAMP, MOST_BYTES)[0].decode("ascii").strip())
    except NotGraded as error:
        return None, f"{error}, and was ignored"
    except ValueError:
        return None, f"{TIMESTAMP} names no time, such as 2026-01-31 23:59:59 UTC, and was ignored"
    if not EARLIEST <= told <= now + SLACK:
        when = "in the future" if told > now else "before 2000"
        return None, f"{TIMESTAMP} says {told.isoformat(' ', 'minutes')}, which is {when}, and was ignored"
    later = changed and changed.replace(tzinfo=None)
    if later is not None and later > told + COPYING:
        said, at = told.isoformat(" ", "minutes"), later.isoformat(" ", "minutes")
        return told, f"{TIMESTAMP} says {said}, but the notebook was changed later, at {at}"
    return told, ""


def weighed(told: datetime | None, doubt: str, received: datetime | None) -> tuple[datetime | None, str]:
    """Return the time a student's file claims, unless the time of receipt is known and differs; see `told_time`."""
    if received is None or (told is not None and -ROUNDED < received - told <= SENDING):
        return told, doubt
    if told is None:
        return received, doubt
    said, at = told.isoformat(" ", "minutes"), received.isoformat(" ", "minutes")
    return received, f"{TIMESTAMP} says {said}, but it was received at {at}, which counts"


def parse_time(text: str) -> datetime:
    """Parse the time, in UTC and without a zone; a ValueError if it isn't one."""
    form = FORM.fullmatch(text := text.upper())
    if not form or (form["zone"] not in (None, "Z") and gettz(form["zone"]) is None):  # which nbgrader takes for UTC
        raise ValueError(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a zone that nobody knows is a warning
        try:
            # behind a space, nbgrader takes it for seconds
            found: datetime = parse_utc(re.sub(r" (?=[+-])", "", text))
            return found
        except (OverflowError, TypeError, Warning):
            raise ValueError(text) from None
