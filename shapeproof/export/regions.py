"""A model that branches on its sizes, as several programs that together serve the domain.

What one program does not serve is explored as a domain of its own, until the solver proves that nothing is left. A
program that serves another's region too takes it over. Each region is what is left of the domain when its turn comes,
cut down to what its program serves: so no two overlap, and the last proof says that together they cover it.

What is explored, and what a finding means, is in sizes.py; the programs are built and told apart at run time elsewhere
(conclude.py, dispatch.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from shapeproof.constraints import formulas as f
from shapeproof.constraints.formulas import Formula
from shapeproof.export.findings import Exploration, Finding, Outcome, narrowed
from shapeproof.export.sizes import Explorer
from shapeproof.export.trial import Trial
from shapeproof.solver.budget import Budget
from shapeproof.solver.facts import Facts
from shapeproof.solver.prove import decide
from shapeproof.solver.simplify import simplified
from shapeproof.solver.witness import find

REGIONS = 16
"""How many programs one model may be split into."""


@dataclass(slots=True)
class Region:
    """A program and what it serves: `holds`, within the declared domain."""

    found: Exploration
    holds: Formula


@dataclass(slots=True)
class Split:
    """The regions of a domain, and what no program serves, as the last trial found it."""

    domain: Facts
    regions: list[Region]
    findings: list[Finding]
    trial: Trial

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
        done.findings = [finding for finding in found.findings if not finding.may_be_another]
        done.trial = found.main.trial
        served = f.conjunction(*(finding.served for finding in others))
        found.findings = []
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
        found = explorer.run(left)
    for region in done.regions:
        region.holds = f.conjunction(*simplified([region.holds], domain, budget))
    return done


def _seen_in(region: Region, done: Split, look: Callable[[Exploration, Facts], None], budget: Budget) -> list[Finding]:
    """What else is found in a region, as requirements that ask nothing elsewhere.

    What is inferred stays as it is: the other regions are not narrowed for the sake of one.
    """
    aside = replace(region.found, findings=[], narrowings=list(region.found.narrowings))
    look(aside, done.within(region))
    seen = []
    for finding in aside.findings:
        required = f.disjunction(f.negate(region.holds), finding.requirement)
        seen.append(replace(finding, joint=f.conjunction(*simplified([required], done.domain, budget))))
    return seen


def proved(done: Split, budget: Budget) -> bool:
    """Whether it is proved of the regions as they are worded that they cover the domain and do not overlap."""
    domain = done.domain
    holds = [region.holds for region in done.regions]
    for region in done.regions:
        domain = narrowed(domain, region.found.narrowings)
    claims = [f.disjunction(*holds)]
    claims += [f.negate(f.conjunction(a, b)) for i, a in enumerate(holds) for b in holds[:i]]
    return all(decide(claim, domain, budget).status == "proved" for claim in claims)


def _beyond(left: Facts, domain: Facts) -> list[Formula]:
    """What sets a part of the domain apart from the rest of it."""
    declared = set(domain.formulas)
    return [fact for fact in left.formulas if fact not in declared]


def _take_in(regions: list[Region], new: Region, explorer: Explorer) -> None:
    """Add a region, or widen the one whose program serves all of it."""
    parts = [new.found.main, *new.found.served]
    for region in regions:
        if all(explorer.same(region.found.main, part) for part in parts):
            region.holds = f.disjunction(region.holds, new.holds)
            region.found.served += parts
            region.found.narrowings += new.found.narrowings
            return
    regions.append(new)


def _too_many(others: Sequence[Finding]) -> Finding:
    """The question of which each answer needs another program."""
    text = f"{REGIONS} programs do not cover the domain, since every answer to this needs another"
    return replace(others[0], outcome=Outcome.MANY, text=text, witness=None)
