"""Make ``attnlib/reactions.txt``: reactions of six textbook kinds, with the known origin of each atom.

Needs RDKit, which nothing else does: ``python -m pip install rdkit``, and then
``python -m autograder.building.make_reactions``.

Two molecules are put together by a template. Their atoms carry numbers through it, as isotopes in a laboratory do, and
so the product says where they came from. Atoms that no chemist could tell apart are all right answers. An acid's two
oxygens are told apart, by convention: they trade roles in the flask, and the templates let the OH leave.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attnlib.reactions import FILE

KINDS = {
    "ester": ("acids", "alcohols", "[C:1](=[O:2])[OX2H1].[OX2H1:3][CX4:4]>>[C:1](=[O:2])[O:3][C:4]"),
    "amide": ("acids", "amines", "[C:1](=[O:2])[OX2H1].[NX3;H1,H2;!$(NC=O):3]>>[C:1](=[O:2])[N:3]"),
    "ether": ("phenols", "halides", "[c:1][OX2H1:2].[CX4:3][Br,I]>>[c:1][O:2][C:3]"),
    "Suzuki": ("bromides", "boronic acids", "[c:1]Br.[c:2]B(O)O>>[c:1][c:2]"),
    "reductive amination": ("aldehydes", "amines", "[CX3:1]=O.[NX3;H1,H2:2]>>[C:1][N:2]"),
    "alkylation": ("halides", "amines", "[CX4:1][Br,I].[NX3;H1,H2:2]>>[C:1][N:2]"),
}
MOLECULES = {
    "acids": "CC(=O)O CCC(=O)O O=C(O)c1ccccc1 Cc1ccc(C(=O)O)cc1 O=C(O)Cc1ccccc1 O=C(O)c1ccncc1 COc1ccc(C(=O)O)cc1 "
    "O=C(O)C1CCCCC1 O=C(O)c1ccco1 CC(C)C(=O)O O=C(O)c1ccc(Cl)cc1",
    "alcohols": "CCO CC(C)CO OCc1ccccc1 OC1CCCCC1 CCCCO COCCO OCCc1ccccc1",
    "amines": "C1COCCN1 NCc1ccccc1 CCNCC C1CCNCC1 COc1ccc(CN)cc1 CC(C)CN CN1CCNCC1",
    "phenols": "Oc1ccccc1 Cc1ccc(O)cc1 COc1ccc(O)cc1 Oc1ccc(F)cc1 CC(=O)c1ccc(O)cc1 N#Cc1ccc(O)cc1 Oc1cccnc1",
    "halides": "BrCc1ccccc1 CCCCBr CC(C)CBr COCCBr CCI BrCC1CCCCC1 COc1ccc(CBr)cc1 BrCCc1ccccc1",
    "bromides": "COc1ccc(Br)cc1 Brc1cccnc1 N#Cc1ccc(Br)cc1 CC(=O)c1ccc(Br)cc1 Cc1ccccc1Br Brc1ccsc1 "
    "COC(=O)c1ccc(Br)cc1",
    "boronic acids": "OB(O)c1ccccc1 Cc1ccc(B(O)O)cc1 COc1ccc(B(O)O)cc1 OB(O)c1ccncc1 OB(O)c1ccc(F)cc1 OB(O)c1ccsc1",
    "aldehydes": "O=Cc1ccccc1 COc1ccc(C=O)cc1 O=Cc1ccncc1 CC(C)C=O O=Cc1ccc(F)cc1 O=CC1CCCCC1 O=Cc1ccco1 CCCC=O",
}
EACH = 24
DRAWN = 2  # of each kind
HEAD = """\
# Reactions whose atoms' origins are known, made by autograder/building/make_reactions.py with RDKit {version}.
# kind; the reaction; for each atom of the product, in its order, those on the left that are right (one, or several that
# no chemist could tell apart); and for some, to draw them: where each atom is, and each bond
"""


def _pairs(first: list[str], second: list[str]) -> list[tuple[str, str]]:
    """The first `EACH` pairs, going evenly through both lists."""
    every = [
        (one, other)
        for turn in range(len(second))
        for i, one in enumerate(first)
        for other in [second[(i + turn) % len(second)]]
    ]
    return every[:EACH]


def _joined(template: str, molecules: tuple[str, str]) -> tuple[Any, Any]:
    """Return the reactants as one molecule, and the product; isotopes in both say which atom is which."""
    from rdkit import Chem
    from rdkit.Chem import rdChemReactions

    both = Chem.MolFromSmiles(".".join(molecules))
    for atom in both.GetAtoms():
        atom.SetIsotope(atom.GetIdx() + 1)
    parts = Chem.GetMolFrags(both, asMols=True)
    found = rdChemReactions.ReactionFromSmarts(template).RunReactants(parts)
    product = found[0][0]
    Chem.SanitizeMol(product)
    return both, product


def _plain(molecule: Any) -> Any:
    from rdkit import Chem

    plain = Chem.Mol(molecule)
    for atom in plain.GetAtoms():
        atom.SetIsotope(0)
    return plain


def _written(molecule: Any) -> tuple[str, list[int]]:
    """Return its SMILES, and its atoms in the order of the text."""
    from rdkit import Chem

    text = Chem.MolToSmiles(molecule)
    return text, [int(i) for i in molecule.GetProp("_smilesAtomOutputOrder").strip("[],").split(",")]


def _alike(molecule: Any) -> list[int]:
    """Number the atoms so that those exchanged by the molecule's symmetry get the same number."""
    from rdkit import Chem

    return list(Chem.CanonicalRankAtoms(molecule, breakTies=False))


def _drawing(molecules: list[tuple[Any, list[int]]]) -> str:
    """Coordinates and bonds, numbered through both sides in the order of the text."""
    from rdkit import Chem
    from rdkit.Chem import rdDepictor

    places, bonds, before = [], [], 0
    for molecule, order in molecules:
        rdDepictor.Compute2DCoords(molecule)
        Chem.Kekulize(molecule)
        points = molecule.GetConformer().GetPositions()
        places += [f"{points[i][0]:.2f} {points[i][1]:.2f}" for i in order]
        for bond in molecule.GetBonds():
            one, other = (before + order.index(i) for i in (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))
            bonds.append(f"{one} {other} {int(bond.GetBondTypeAsDouble())}")
        before += len(order)
    return f"; {', '.join(places)}; {', '.join(bonds)}"


def _respelled(both: Any, product: Any, origin: list[int]) -> list[tuple[str, list[int]]]:
    """Start the acid from its first atom, the alcohol from its oxygen, and the product from the acid's first atom."""
    from rdkit import Chem

    numbers: list[list[int]] = []
    text: list[str] = []
    order: list[int] = []
    for molecule, own in zip(Chem.GetMolFrags(both, asMols=True, fragsMolAtomMapping=numbers), numbers, strict=True):
        first = molecule.GetSubstructMatch(Chem.MolFromSmarts("[OX2H1][CX4]"))[0] if text else 0
        text.append(Chem.MolToSmiles(molecule, rootedAtAtom=first))
        order += [own[int(i)] for i in molecule.GetProp("_smilesAtomOutputOrder").strip("[],").split(",")]
    right = Chem.MolToSmiles(product, rootedAtAtom=origin.index(0))
    right_order = [int(i) for i in product.GetProp("_smilesAtomOutputOrder").strip("[],").split(",")]
    return [(".".join(text), order), (right, right_order)]


def lines() -> Iterator[str]:
    """The lines of the file, without its head; the esters come once more at the end, in another order."""
    for kind in KINDS:
        yield from _of_kind(kind)
    yield from _of_kind("ester", respelled=True)


def _of_kind(kind: str, *, respelled: bool = False) -> Iterator[str]:
    one, other, template = KINDS[kind]
    for number, molecules in enumerate(_pairs(MOLECULES[one].split(), MOLECULES[other].split())):
        both, product = _joined(template, molecules)
        origin = [atom.GetIsotope() - 1 for atom in product.GetAtoms()]
        both, product = _plain(both), _plain(product)
        texts = _respelled(both, product, origin) if respelled else [_written(both), _written(product)]
        (left, left_order), (right, right_order) = texts
        of_both, of_product = _alike(both), _alike(product)
        answers = []
        for atom in right_order:
            classes = {of_both[origin[twin]] for twin, rank in enumerate(of_product) if rank == of_product[atom]}
            answers.append(" ".join(str(i) for i, a in enumerate(left_order) if of_both[a] in classes))
        draw = number < DRAWN and not respelled
        drawn = _drawing([(both, left_order), (product, right_order)]) if draw else ""
        name = f"{kind}, respelled" if respelled else kind
        yield f"{name}; {left}>>{right}; {', '.join(answers)}{drawn}"


def made() -> str:
    """The text of the whole file."""
    import rdkit

    return HEAD.format(version=rdkit.__version__) + "".join(f"{line}\n" for line in lines())


if __name__ == "__main__":
    Path(FILE).write_text(made(), encoding="utf-8")
