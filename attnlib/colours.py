"""A small text to learn from: colours, and the names that people gave them."""

import random

RUDE = (
    *("poo", "shit", "puke", "snot", "vomit", "barf", "booger", "pee", "piss"),
    *("diarrhea", "bile", "ugly", "nasty", "sick"),
)
"""Names with these words are left out: not every answer to the survey was polite."""


def colour_lines() -> list[str]:
    """910 lines such as ``#f96 apricot``, in an order drawn once.

    The names are those that readers of xkcd agreed on in the survey of 2010, and come with matplotlib. Each colour is
    rounded to one of six steps of red, green and blue, so three digits are enough.

    >>> lines = colour_lines()
    >>> len(lines), lines[0], "#f96 apricot" in lines
    (910, '#f06 pink red', True)
    """
    from matplotlib.colors import XKCD_COLORS

    lines = []
    for name, code in XKCD_COLORS.items():
        if not any(word in name for word in RUDE):
            steps = (round(int(str(code)[i : i + 2], 16) / 51) for i in (1, 3, 5))
            lines.append("#" + "".join("0369cf"[step] for step in steps) + name.replace("xkcd:", " "))
    random.Random(0).shuffle(lines)
    return lines
