"""The commands that try the course's own answers: nothing is loaded before one of them runs."""

from pathlib import Path

import click


@click.command()
@click.argument("exercises", nargs=-1, metavar="[EXERCISE]...")
@click.option("--page", type=click.Path(path_type=Path, dir_okay=False), help="Also write it as an HTML page.")
@click.option("--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="How many seeds to judge with.")
def checks(exercises: tuple[str, ...], page: Path | None, seeds: int) -> None:
    """Test whether the checks can be trusted, and exit with 1 if they can't.

    The check of each exercise, of all if none is named, is tried on every misconception (rejected, under its own name),
    on every right answer (accepted), and on mutants of right answers (killed, or listed as equivalent with a reason).
    It also measures what a check costs. Takes several minutes.
    """
    from autograder.proof.command import prove

    prove(exercises, seeds=seeds, page_file=page)


@click.command()
@click.argument("exercises", nargs=-1, metavar="[EXERCISE]...")
@click.option("--check", is_flag=True, help="Write nothing; fail if the table is not what trying shows.")
@click.option("--count", is_flag=True, help="Try nothing; count what is in the table.")
def bugs(exercises: tuple[str, ...], check: bool, count: bool) -> None:
    """Try every wrong line as a bug for practice, and write the table of those that can be served.

    Of the exercises, of all if none is named. Each is run as a learner would run it: its check rejects it under its own
    name, the one repair makes it right, and no small change in another line does. Takes half an hour for all, on two
    cores that are free. A line says of each exercise that it is done, with --check whether its rows are right; after a
    stop, go on by naming the others.
    """
    from autograder.proof.bugs_command import build_table, show_counts

    if count:
        return show_counts()
    build_table(exercises, check=check)
