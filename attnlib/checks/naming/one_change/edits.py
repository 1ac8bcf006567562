"""The edits tried on an answer: the same repair in one place, or in several that look alike."""

import ast
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from attnlib.checks.naming.one_change.kinds import CHANGES, MOVES
from attnlib.checks.naming.one_change.repair import Repair
from attnlib.checks.naming.one_change.repairs import repairs
from attnlib.checks.naming.one_change.replacements import changed
from attnlib.checks.naming.one_change.sites import Site, sites
from attnlib.checks.naming.one_change.written import Written


@dataclass(frozen=True)
class Edit:
    """The same repair in one place or in several that look alike."""

    places: tuple[tuple[Site, ast.AST], ...]
    repair: Repair

    @property
    def moves_statements(self) -> bool:
        """True if it drops or moves whole statements, or takes one branch of two: other statements run then."""
        moved = ast.Pass | ast.If | ast.FunctionDef | ast.With | ast.For
        return self.repair.kind == "branch" or any(isinstance(new, moved) for _, new in self.places)

    @contextlib.contextmanager
    def put(self) -> Iterator[None]:
        """Put it in its place in the body."""
        for site, node in self.places:
            known = hasattr(node, "lineno")  # a piece of the answer itself stays where it is written
            site.put(ast.fix_missing_locations(node if known else ast.copy_location(node, site.node)))
        try:
            yield
        finally:
            for site, _ in self.places:
                site.put(site.node)

    def lies_in(self, statements: set[int]) -> bool:
        """True if one of its places lies in one of these statements, which are given by their lines."""
        return any(site.statement.lineno in statements for site, _ in self.places)

    def leaves_layers(self, written: Written) -> bool:
        """True if it lies in methods of a module other than its `__init__`."""
        return all(id(site.statement) in written.behind_init for site, _ in self.places)


def edits_of(written: Written, aspects: set[str]) -> list[Edit]:
    """All edits, the likely ones first: of one place, and of all places that look the same."""
    tree = written.tree
    found: list[Edit] = []
    alike: dict[str, list[tuple[Site, list[Repair]]]] = {}
    for site in list(sites(tree)):
        ways = list(repairs(site, aspects))
        found += [Edit(((site, way.node),), way) for way in ways]
        for look in _looks(site):
            alike.setdefault(look, []).append((site, ways))
    for group in {tuple(id(s) for s, _ in g): g for g in alike.values() if len(g) > 1}.values():
        for same in zip(*(ways for _, ways in group), strict=False):
            if len({way.kind for way in same}) == 1:
                places = tuple((site, way.node) for (site, _), way in zip(group, same, strict=True))
                found.append(Edit(places, same[0]))
    found += _exchanges(tree)
    if aspects == {"device"}:  # any other change may keep a tensor off the other device by chance
        found = [edit for edit in found if edit.repair.kind in MOVES]
    rank = {kind: place for place, kind in enumerate(CHANGES)}
    built = bool(written.behind_init) and bool(aspects & {"values", "shape", "mutation", "gradient"})
    return sorted(found, key=lambda edit: (built and not edit.leaves_layers(written), rank[edit.repair.kind]))


def _looks(site: Site) -> Iterator[str]:
    """Yield the keys that places to be changed together share: a slip is made wherever one writes the same."""
    node = site.node
    if isinstance(node, ast.AugAssign):
        yield f"{ast.unparse(node.target)} {type(node.op).__name__}="
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        yield f"[{ast.unparse(node.targets[0].slice)}] = {ast.unparse(node.value)}"
    if isinstance(node, ast.stmt):
        return
    yield ast.dump(node)
    if isinstance(node, ast.Constant):
        around = site.parent
        yield f"{getattr(around, 'arg', '') or getattr(getattr(around, 'func', None), 'attr', '')} {node.value!r}"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield f"{node.func.attr}({[ast.dump(a) for a in node.args]}, {[ast.dump(k) for k in node.keywords]})"
        yield f"{node.func.attr}({len(node.args)}, {[k.arg for k in node.keywords]})"
    if isinstance(node, ast.Attribute):
        yield f".{node.attr}"
    if isinstance(node, ast.BinOp):
        yield f"{type(node.op).__name__} of {type(node.left).__name__} and {type(node.right).__name__}"


def _exchanges(tree: ast.Module) -> Iterator[Edit]:
    """Yield edits that exchange two variables, or two of the object's own attributes, throughout."""
    places: dict[str, list[Site]] = {}
    for site in sites(tree):
        if isinstance(site.node, ast.Name) and site.node.id in site.scope.names:
            places.setdefault(site.node.id, []).append(site)
        elif isinstance(site.node, ast.Attribute) and ast.unparse(site.node.value) == "self":
            places.setdefault(f"self.{site.node.attr}", []).append(site)
    for one, other in combinations(places, 2):
        a, b = places[one][0].node, places[other][0].node
        if type(a) is type(b):
            put = [(s, _named(s.node, b)) for s in places[one]] + [(s, _named(s.node, a)) for s in places[other]]
            yield Edit(tuple(put), Repair(put[0][1], "exchange", f"`{other}` and `{one}` in each other's place, as in"))


def _named(node: Any, other: Any) -> Any:
    return changed(node, id=other.id) if isinstance(node, ast.Name) else changed(node, attr=other.attr)
