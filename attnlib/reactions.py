"""Chemical reactions as text, a published model that reads them, and reactions whose atom mapping is known.

The model is RXNMapper's: Schwaller et al. 2021, "Extraction of organic chemistry grammar from unsupervised learning of
chemical reactions", Science Advances 7, eabe4166. Its weights come with the package ``rxnmapper`` (MIT licence).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from .albert import MaskedLanguageModel, from_albert

FILE = Path(__file__).with_name("reactions.txt")
INSTALL = "python -m pip install --no-deps rxnmapper==0.4.3"
FOLDER = "models/transformers/albert_heads_8_uspto_all_1310k"
NUM_HEADS, DEPTH = 8, 12
TOKEN = re.compile(r"\[[^]]+]|Br|Cl|[NOSPFIBCbcnosp()=#+\-\\/:~@?*$.]|>>|%\d\d|\d")


class ModelMissing(ImportError):
    """Raised if the package with the weights isn't installed; IPython shows only the sentence on how to get it."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


@dataclass(frozen=True)
class Reaction:
    """A reaction whose atom mapping is known; atoms are numbered on each side separately, in the order of the text."""

    kind: str
    text: str
    origins: tuple[tuple[int, ...], ...]
    """For each atom of the product, its correct origin on the left, or several that are equivalent."""
    points: tuple[tuple[float, float], ...] = ()
    """The coordinates to draw each atom at, those on the left first; for some reactions only."""
    bonds: tuple[tuple[int, int, int], ...] = ()
    """Bonds: two atoms, numbered through both sides, and the bond's order."""


def reactions() -> list[Reaction]:
    """All reactions of ``reactions.txt``, made from textbook templates.

    >>> reactions()[0].text, reactions()[0].origins[-1]
    ('CC(=O)O.CCO>>CCOC(C)=O', (2,))
    """
    lines = FILE.read_text(encoding="utf-8").splitlines()
    return [_read(line) for line in lines if not line.startswith("#")]


def _read(line: str) -> Reaction:
    kind, text, origins, *drawn = line.split("; ")
    points, bonds = drawn or ("", "")
    return Reaction(
        kind,
        text,
        tuple(tuple(map(int, atoms.split())) for atoms in origins.split(", ")),
        tuple((float(x), float(y)) for x, y in map(str.split, filter(None, points.split(", ")))),
        tuple((int(a), int(b), int(many)) for a, b, many in map(str.split, filter(None, bonds.split(", ")))),
    )


def tokens(text: str) -> list[str]:
    """A reaction's tokens, with the model's marks for the beginning and the end.

    >>> tokens("CBr.[NH4+]>>CN")
    ['[CLS]', 'C', 'Br', '.', '[NH4+]', '>>', 'C', 'N', '[SEP]']

    Raises ValueError for characters that cannot be part of a reaction.
    """
    found = TOKEN.findall(text)
    if "".join(found) != text:
        strange = re.sub(TOKEN, "", text)
        raise ValueError(f"a reaction must be written in SMILES, got {text!r:.80}, where {strange!r:.20} is none")
    return ["[CLS]", *found, "[SEP]"]


def element(token: str) -> str:
    """The element of a token that is an atom, or "" for any other token.

    >>> [element(token) for token in ("c", "Br", "[NH4+]", "[C@@H]", "(", ">>", "[CLS]")]
    ['C', 'Br', 'N', 'C', '', '', '']
    """
    if token in ("[CLS]", "[SEP]", "[MASK]"):
        return ""
    letters = re.match(r"\[?\d*([A-Z][a-z]?|[a-z]{1,2})", token)
    if letters is None:
        return ""
    symbol = letters[1].capitalize()
    return symbol[0] if token[0] != "[" and symbol not in ("Br", "Cl") else symbol


def atoms(text: Sequence[str]) -> tuple[list[int], list[int]]:
    """The indices of the atoms among a reaction's tokens: those before the arrow, and those after it.

    >>> atoms(tokens("CO.C>>CC"))
    ([1, 2, 4], [6, 7])
    """
    arrow = text.index(">>")
    every = [i for i, token in enumerate(text) if element(token)]
    return [i for i in every if i < arrow], [i for i in every if i > arrow]


def vocabulary() -> dict[str, int]:
    """The published model's tokens, each with its number."""
    names = (published() / "vocab.txt").read_text(encoding="utf-8").split("\n")
    return {token: number for number, token in enumerate(names)}


def published_weights() -> dict[str, Tensor]:
    """The published file of weights, by their published names."""
    found: dict[str, Tensor] = torch.load(published() / "pytorch_model.bin", weights_only=True, map_location="cpu")
    return found


def published() -> Path:
    """The folder with the published model; without the package, an error that says how to get it."""
    package = find_spec("rxnmapper")
    if package is None or package.origin is None:
        raise ModelMissing(f"The model's weights are not installed; this command brings them: {INSTALL}")
    return Path(package.origin).parent / FOLDER


def reaction_model() -> MaskedLanguageModel:
    """The published model: 810,959 of its file's 877,598 weights, twelve layers that share one block of eight heads."""
    return from_albert(published_weights(), num_heads=NUM_HEADS, depth=DEPTH)
