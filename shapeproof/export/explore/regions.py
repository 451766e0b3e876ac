"""A model that branches on its sizes, as several programs that together serve the domain.

What one program does not serve is explored as a domain of its own, until the solver proves that nothing is left. A
program that serves another's region too takes it over. Each region is what is left of the domain when its turn comes,
cut down to what its program serves: so no two overlap, and the last proof says that together they cover it.

Exploring, and what a finding means, is in explorer.py; the programs are built and told apart at run time elsewhere
(conclude.py, dispatch.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.export.explore.explorer import Explorer
from shapeproof.export.explore.findings import Exploration, Finding, Impossible, Outcome, narrowed
from shapeproof.export.trace.trial import Trial
from shapeproof.solver.answers.simplify import simplified
from shapeproof.solver.answers.witness import find
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import decide

REGIONS = 16
"""How many programs one model may be split into."""


@dataclass(slots=True)
class Region:
    """A program and what it serves: `holds`, within the declared domain."""

    found: Exploration
    holds: Formula


@dataclass(slots=True)
class Split:
    """The regions of a domain, and what no program serves, as the last trial found it.

    Attributes:
        opened: what could not be decided in a region, about data, and the trial that found it.
        unexplored: where no program could be found, and why; None if that is nowhere.
    """

    domain: Facts
    regions: list[Region]
    findings: list[Finding]
    trial: Trial
    opened: list[tuple[Finding, Trial]] = field(default_factory=list)
    unexplored: tuple[Formula, Exception] | None = None

    @property
    def inferred(self) -> list[Formula]:
        """What the regions have given up: it holds of every input that any of them serves."""
        return [narrowing.requirement for region in self.regions for narrowing in region.found.narrowings]

    def within(self, region: Region) -> Facts:
        """What holds of every input in a region."""
        here = narrowed(self.domain, region.found.narrowings)
        here.learn(region.holds)
        return here


def split(explorer: Explorer, domain: Facts, budget: Budget, look: Callable[[Exploration, Facts], None]) -> Split:
    """Explore the domain until the solver proves that the regions cover it.

    Args:
        explorer: of the model.
        domain: what was declared.
        budget: what one solver question may cost.
        look: has an exploration take what else is found in a part of the domain.
    """
    found = explorer.run(domain)
    done = Split(domain, [], [], found.main.trial)
    left = domain.fork()
    while True:
        others = [finding for finding in found.findings if finding.may_be_another]
        opened = [finding for finding in found.findings if finding.outcome is Outcome.UNDECIDED and finding.answers]
        done.findings = [each for each in found.findings if each not in others and each not in opened]
        done.trial = found.main.trial
        done.opened += [(finding, done.trial) for finding in opened]
        served = f.conjunction(*(finding.served for finding in others))
        found.findings = opened
        # In few words, since they are part of what is found from here on: else texts double with each region.
        holds = f.conjunction(*simplified([*_beyond(left, domain), served], domain, budget))
        region = Region(found, holds)
        done.findings += _seen_in(region, done, look, budget)
        _take_in(done.regions, region, explorer)
        left = narrowed(left, found.narrowings)
        left.learn(f.negate(holds))
        if done.findings or find(f.TRUE, left, budget) is None:
            break
        if len(done.regions) == REGIONS:
            done.findings.append(_too_many(others))
            break
        try:
            found = explorer.run(left)
        except Impossible:
            raise
        except Exception as error:  # noqa: BLE001 - every program refuses there
            done.unexplored = f.conjunction(*simplified(_beyond(left, domain), domain, budget)), error
            break
    for region in done.regions:
        region.holds = f.conjunction(*simplified([region.holds], domain, budget))
    return done


def _seen_in(region: Region, done: Split, look: Callable[[Exploration, Facts], None], budget: Budget) -> list[Finding]:
    """What else is found in a region, as requirements that ask nothing elsewhere; the region takes what is inferred."""
    found = region.found
    aside = replace(found, findings=[], narrowings=list(found.narrowings))
    look(aside, done.within(region))

    def in_the_region(required: Formula) -> Formula:
        return f.conjunction(*simplified([f.disjunction(f.negate(region.holds), required)], done.domain, budget))

    inferred = aside.narrowings[len(found.narrowings) :]
    found.narrowings += [replace(each, requirement=in_the_region(each.requirement)) for each in inferred]
    return [replace(each, joint=in_the_region(each.requirement)) for each in aside.findings]


def proved(done: Split, budget: Budget) -> bool:
    """Whether it is proved of the regions as they are worded that they cover the domain and do not overlap."""
    domain, holds = done.domain.fork(), [region.holds for region in done.regions]
    for formula in done.inferred:
        domain.learn(formula)
    claims = [f.disjunction(*holds)]
    claims += [f.negate(f.conjunction(a, b)) for i, a in enumerate(holds) for b in holds[:i]]
    return all(decide(claim, domain, budget).status == "proved" for claim in claims)


def _beyond(left: Facts, domain: Facts) -> list[Formula]:
    """What sets a part of the domain apart from the rest of it."""
    declared = set(domain.formulas)
    return [fact for fact in left.formulas if fact not in declared]


def _take_in(regions: list[Region], new: Region, explorer: Explorer) -> None:
    """Add a region, or widen the one whose program serves all of it; then merge those that its program serves.

    Which of two programs serves both does not depend on which was found first, and so the number of regions does not.
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
    """Whether the program of a region serves all of another, where nothing about data is open."""
    return not other.found.findings and all(
        explorer.same(region.found.main, part) for part in (other.found.main, *other.found.served)
    )


def _widen(region: Region, other: Region) -> None:
    """Hand another region over to the program of this one."""
    region.holds = f.disjunction(region.holds, other.holds)
    region.found.served += [other.found.main, *other.found.served]
    region.found.narrowings += other.found.narrowings


def _too_many(others: Sequence[Finding]) -> Finding:
    """The question of which each answer needs another program."""
    text = f"{REGIONS} programs do not cover the domain, since every answer to this needs another"
    return replace(others[0], outcome=Outcome.MANY, text=text, witness=None)
