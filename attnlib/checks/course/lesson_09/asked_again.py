"""Lesson 09's predictions, asked again: other models, and other windows."""

from random import Random
from typing import Any

from attnlib.checks.course.asked_again import AskedAgain, Question, WrongOption, counted

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
TOO_MANY = 16
"""The factor by which the largest option is too large."""


def size(number: int) -> str:
    """Write a number of bytes in the largest unit that fits.

    >>> size(2 * 1024**3), size(40 * 1024)
    ('2 GiB', '40 KiB')
    """
    amount, unit = float(number), 0
    while amount >= 1024 and unit < len(UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.4g} {UNITS[unit]}"


def what_to_keep() -> Question:
    """Ask what is needed of the earlier tokens to compute the next one."""
    return Question(
        text="A decoder with a causal mask has read n tokens, and token n + 1 comes. What do you need of the earlier "
        "tokens, in each layer, so that only the new one goes through the matrices?",
        right="the keys and values of all of them",
        wrong=(
            WrongOption("queries_kept_too", "their queries, keys and values"),
            WrongOption("last_output_kept", "the output of the last one, which has seen all the others"),
            WrongOption("vectors_kept", "the vectors x that entered the layer"),
        ),
    )


def cache_size(layers: int, heads: int, d_head: int, tokens: int) -> Question:
    """Ask how large the cache of one conversation is, at two bytes a number."""
    a_token = 2 * layers * heads * d_head * 2
    return Question(
        text=f"A decoder has {layers} layers of {heads} heads, each with keys and values of its own, {d_head} wide, at "
        f"two bytes a number. How large is the cache of one conversation of {tokens:,} tokens?",
        right=size(a_token * tokens),
        wrong=(
            WrongOption(
                "small_as_text",
                f"about {size(2 * tokens)}, two bytes for each token",
                "The text is small, but each token leaves a key and a value in every head of every layer. That's "
                f"2 · {layers} · {heads} · {d_head} numbers, not one.",
            ),
            WrongOption(
                "layers_forgotten",
                size(a_token // layers * tokens),
                f"Each of the {layers} layers has its own keys and values.",
            ),
            WrongOption(
                "keys_of_keys",
                size(TOO_MANY * a_token * tokens),
                f"Work it out: 2 · {layers} · {heads} · {d_head} numbers a token, at two bytes each, times {tokens:,}. "
                f"The weights, 12 d_model² numbers a layer, take {size(weights(layers, heads * d_head))}.",
            ),
        ),
        why=f"2 (keys and values) · {layers} layers · {heads} heads · {d_head} columns · 2 bytes is {size(a_token)} "
        f"for each token. Times {tokens:,}, that's {size(a_token * tokens)}, and every conversation needs its own.",
    )


def weights(layers: int, d_model: int) -> int:
    """Return the bytes of a decoder's weights, at two a number: four matrices and an MLP a layer, no embedding."""
    return 12 * layers * d_model**2 * 2


def reach(layers: int, window: int) -> Question:
    """Ask how far back the farthest token is that can change the last output."""
    seen, farthest = window - 1, layers * (window - 1)
    return Question(
        text=f"{counted(layers).capitalize()} layers, each with a window of {window}: a token attends to the last "
        f"{window} tokens, itself included. How many positions back is the farthest token that can change the "
        "output at the last position?",
        right=str(farthest),
        wrong=(
            WrongOption(
                "one_layer_only",
                str(seen),
                f"In one layer the window ends {seen} positions back, because it counts the query itself. But what the "
                f"next layer finds there has already looked {seen} positions further back.",
            ),
            WrongOption(
                "one_layer_and_one_more",
                str(window),
                f"A window of {window} is the query's own key and {seen} before it. With several layers, the token "
                f"{seen} positions back has itself looked {seen} positions further.",
            ),
            WrongOption(
                "windows_added_up",
                str(layers * window),
                f"Two windows of {window} overlap at one position. The farthest key of one window belongs to the "
                "token where the next one starts. Each layer adds window - 1.",
            ),
        ),
        why=f"The last token sees {seen} positions back, and in the layer below, the token there saw {seen} further, "
        f"and so on down: {layers} · ({window} - 1) = {farthest}. Each layer adds window - 1.",
    )


def _decoder(chance: Random) -> dict[str, Any]:
    """Draw a decoder and a conversation so long that the largest option for its cache exceeds the weights."""
    while True:
        numbers = {
            "layers": chance.choice((6, 8, 12, 16, 24, 32, 40, 48, 64, 80)),
            "heads": chance.choice((8, 12, 16, 32, 40, 64)),
            "d_head": chance.choice((64, 128)),
            "tokens": chance.choice((1024, 2048, 4096, 8192, 16384, 32768)),
        }
        layers, d_model, tokens = numbers["layers"], numbers["heads"] * numbers["d_head"], numbers["tokens"]
        if TOO_MANY * 2 * layers * d_model * 2 * tokens > weights(layers, d_model):
            return numbers


ASKED_AGAIN = (
    AskedAgain("predict_what_to_keep", what_to_keep),
    AskedAgain("predict_cache_size", cache_size, {"layers": 32, "heads": 32, "d_head": 128, "tokens": 4096}, _decoder),
    AskedAgain(
        "predict_reach",
        reach,
        {"layers": 2, "window": 4},
        lambda chance: {"layers": chance.randint(2, 6), "window": chance.randint(3, 12)},
    ),
)
