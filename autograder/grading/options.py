"""The options of the commands that grade: behind which layers, with which workers, into which gradebook."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autograder.sandbox.option import sandbox_option
from autograder.showing.terminal import say

if TYPE_CHECKING:
    from autograder.grading.grade_course import How

FILE = click.Path(dir_okay=False, path_type=Path)
OPTIONS: list[Callable[..., Any]] = [
    sandbox_option,
    click.option("--workers", type=click.IntRange(1), help="Submissions judged at once; the number of processors."),
    click.option("--scheduler", metavar="ADDRESS", help="Judge on a Dask cluster, such as tls://10.0.0.1:8786."),
    click.option("--tls-ca", type=FILE, envvar="AUTOGRADER_TLS_CA", help="Who signed the scheduler's certificate."),
    click.option("--tls-cert", type=FILE, envvar="AUTOGRADER_TLS_CERT", help="The certificate shown to the scheduler."),
    click.option("--tls-key", type=FILE, envvar="AUTOGRADER_TLS_KEY", help="The certificate's key."),
    click.option("--db", metavar="URL", help="The gradebook's database, such as postgresql://user@host/course."),
]


def grading_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options; in their place the command gets `how`, which looks for the sandbox and says what it found."""

    @functools.wraps(function)
    def command(*args: Any, db: str | None, **more: Any) -> None:
        if db is not None:
            os.environ["AUTOGRADER_DB"] = db
        told = {name: more.pop(name) for name in ("sandbox", "workers", "scheduler", "tls_ca", "tls_cert", "tls_key")}
        function(*args, how=functools.partial(_how, **told), **more)

    for option in reversed(OPTIONS):
        command = option(command)
    return command


def _how(
    sandbox: str,
    workers: int | None,
    scheduler: str | None,
    tls_ca: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
) -> "How":
    from autograder.grading.certificates import certificates, check_address, warning
    from autograder.grading.grade_course import How
    from autograder.sandbox.probe import probe

    signed = certificates(tls_ca, tls_cert, tls_key) if scheduler is not None else None
    if scheduler is not None:
        check_address(scheduler, signed)
        if warned := warning(scheduler):
            click.echo(warned, err=True)
    layers = None if scheduler is not None and sandbox == "auto" else probe(sandbox)
    if layers is not None:
        say(layers, err=True)
    return How(layers=layers, workers=workers or len(os.sched_getaffinity(0)), scheduler=scheduler, shown=signed)
