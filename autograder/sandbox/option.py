"""The option `--sandbox` of the commands that run student code."""

from collections.abc import Callable

import click


def sandbox_option(function: Callable[..., None]) -> Callable[..., None]:
    """Add the option by which an instructor names the layers."""
    return click.option(
        "--sandbox",
        metavar="LAYERS",
        default="auto",
        show_default=True,
        help="What student code runs behind. auto: bubblewrap, or else landlock, which is Landlock with seccomp. "
        "any: or else user, which is another user with seccomp, for containers, as root. "
        "docker:IMAGE or podman:IMAGE: a container with torch, einops, jaxtyping, matplotlib and IPython, and without "
        "attnlib. "
        "none: nothing but limits; student code then has your own rights.",
    )(function)
