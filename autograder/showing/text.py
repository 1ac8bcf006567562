"""Text that can be shown anywhere."""


def printable(text: object, keep: str = "") -> str:
    r"""Escape everything that isn't a visible character; the characters in `keep` stay.

    Control characters move a terminal's cursor, format characters such as U+202E turn the direction of what follows,
    and half a surrogate pair cannot be written to a file.

    >>> print(printable("a\x1b[2J\u202eb"))
    a\x1b[2J\u202eb
    """
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in str(text))
