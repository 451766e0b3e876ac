"""Split a model that branches on its sizes into several programs that together serve the domain.

The part that one program does not serve is explored as a domain, until the solver proves that nothing is left. A
program that also serves another program's region takes that region over. Each region is the part of the domain that is
left at its turn, restricted to what its program serves. So no two regions overlap, and the last proof shows that they
cover the domain.

explorer.py explores and defines the findings. conclude.py builds the programs; build/regions.py selects one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.export.explore.explorer import Explorer
from shapeproof.export.explore.findings import Exploration, Finding, Impossible, Outcome, narrowed
from shapeproof.export.limits import RUNS
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.answers.simplify import in_few_words, simplified
from shapeproof.solver.answers.witness import find
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import implied


@dataclass(slots=True)
class Region:
    """A program and the formula `holds`, which describes within the declared domain what the program serves."""

    found: Exploration
    holds: Formula


@dataclass(slots=True)
class Split:
    """The regions of a domain, and the part that no program serves, as the last trial found it.

    Attributes:
        opened: undecided findings about data in a region, each with the trial that found it.
        unexplored: the part where no program could be found, and the error; None if there is no such part.
    """

    domain: Facts
    regions: list[Region]
    findings: list[Finding]
    trial: Trial
    opened: list[tuple[Finding, Trial]] = field(default_factory=list)
    unexplored: tuple[Formula, Exception] | None = None

    @property
    def inferred(self) -> list[Formula]:
        """Return what inferred sizes were narrowed to: every input that some region serves meets these requirements."""
        return [narrowing.requirement for region in self.regions for narrowing in region.found.narrowings]

    def within(self, region: Region) -> Facts:
        """Return the facts that hold for every input in a region."""
        here = narrowed(self.domain, region.found.narrowings)
        here.learn(region.holds)
        return here


def split(
    explorer: Explorer, domain: Facts, look: Callable[[Exploration, Facts], None], cuts: Sequence[Formula] = ()
) -> Split:
    """Explore the domain until the solver proves that the regions cover it.

    `look` adds further findings about a part of the domain to an exploration. Each of the conditions `cuts` gets
    programs of its own, where none before it holds.
    """
    done: Split | None = None
    for left in _parts(domain, cuts):
        found = _explored(explorer, left, done)
        if found is None:
            break
        done = done or Split(domain, [], [], found.main.trial)
        _cover(explorer, found, left, look, done)
        if done.findings or done.unexplored is not None:
            break
    if done is None:
        raise ValueError("the domain has no part")
    for region in done.regions:
        region.holds = in_few_words(region.holds, domain)
    return done


def _parts(domain: Facts, cuts: Sequence[Formula]) -> list[Facts]:
    """Cut a domain along conditions; the last part is the rest."""
    parts, left = [], domain.fork()
    for cut in cuts:
        parts.append(left.assuming(cut))
        left = left.assuming(f.negate(cut))
    return [part for part in (*parts, left) if not cuts or find(f.TRUE, part) is not None]


def _explored(explorer: Explorer, left: Facts, done: Split | None) -> Exploration | None:
    """Explore what is left of a domain; None if that fails where other parts are served already, and note the part."""
    try:
        return explorer.run(left)
    except Impossible:
        raise
    except Exception as error:  # every program refuses there
        if done is None:
            raise
        rest = f.conjunction(*simplified(_beyond(left, done.domain), done.domain))
        done.unexplored = None if rest is f.FALSE else (rest, error)
        return None


def _cover(
    explorer: Explorer,
    found: Exploration,
    left: Facts,
    look: Callable[[Exploration, Facts], None],
    done: Split,
) -> None:
    """Explore a part of the domain until its regions cover it; `found` is the first exploration of the part."""
    regions: list[Region] = []
    following: Exploration | None = found
    while following is not None:
        found = following
        others = [finding for finding in found.findings if finding.may_be_another]
        opened = [each for each in found.findings if each.outcome is Outcome.UNDECIDED and each.cell.answers]
        done.findings = [each for each in found.findings if each not in others and each not in opened]
        done.trial = found.main.trial
        done.opened += [(finding, done.trial) for finding in opened]
        served = f.conjunction(*(finding.cell.outside for finding in others))
        found.findings = opened
        # Simplified, because later regions contain these formulas: otherwise texts double with each region.
        holds = f.conjunction(*simplified([*_beyond(left, done.domain), served], done.domain))
        region = Region(found, holds)
        done.findings += _seen_in(region, done, look)
        _take_in(regions, region, explorer)
        left = narrowed(left, found.narrowings)
        left.learn(f.negate(holds))
        if done.findings or find(f.TRUE, left) is None:
            break
        if len(done.regions) + len(regions) == RUNS:
            done.findings += [_too_many(others)] if others else []  # else it is undecided whether these cover
            break
        following = _explored(explorer, left, done)
    done.regions += regions


def _seen_in(region: Region, done: Split, look: Callable[[Exploration, Facts], None]) -> list[Finding]:
    """Return further findings in a region, as requirements restricted to it; the region takes the narrowings."""
    found = region.found
    aside = replace(found, findings=[], narrowings=list(found.narrowings))
    look(aside, done.within(region))

    def in_the_region(required: Formula) -> Formula:
        return f.conjunction(*simplified([f.disjunction(f.negate(region.holds), required)], done.domain))

    inferred = aside.narrowings[len(found.narrowings) :]
    found.narrowings += [replace(each, requirement=in_the_region(each.requirement)) for each in inferred]
    return [replace(each, joint=in_the_region(each.requirement)) for each in aside.findings]


def proved(done: Split) -> bool:
    """True if the solver proves that the regions, as worded, cover the domain and do not overlap."""
    domain, holds = done.domain.assuming(*done.inferred), [region.holds for region in done.regions]
    claims = [f.disjunction(*holds)]
    claims += [f.negate(f.conjunction(a, b)) for i, a in enumerate(holds) for b in holds[:i]]
    return all(implied(claim, domain) for claim in claims)


def _beyond(left: Facts, domain: Facts) -> list[Formula]:
    """Return the facts that distinguish a part of the domain from the rest."""
    declared = set(domain.formulas)
    return [fact for fact in left.formulas if fact not in declared]


def _take_in(regions: list[Region], new: Region, explorer: Explorer) -> None:
    """Add a region, or widen the region whose program serves all of it; then merge the regions that its program serves.

    Law: the number of regions does not depend on which of two programs was found first.
    """
    wider = next((region for region in regions if _serves(region, new, explorer)), None)
    if wider is not None:
        _widen(wider, new)
        return
    served = [region for region in regions if _serves(new, region, explorer)]
    for region in served:
        _widen(new, region)
    place = regions.index(served[0]) if served else len(regions)
    regions[place:] = [new, *(region for region in regions[place:] if region not in served)]


def _serves(region: Region, other: Region, explorer: Explorer) -> bool:
    """True if the program of a region serves all of another region in which nothing about data is open."""
    return not other.found.findings and all(
        explorer.ladder.same(region.found.main, part) for part in (other.found.main, *other.found.served)
    )


def _widen(region: Region, other: Region) -> None:
    """Give another region to the program of this one."""
    region.holds = f.disjunction(region.holds, other.holds)
    region.found.served += [other.found.main, *other.found.served]
    region.found.narrowings += other.found.narrowings


def _too_many(others: Sequence[Finding]) -> Finding:
    """Return a finding at a question whose every answer needs another program."""
    text = f"{RUNS} programs do not cover the domain, since every answer to this needs another"
    return replace(others[0], outcome=Outcome.MANY, text=text, witness=None)
