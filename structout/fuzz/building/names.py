"""The names of an object's members."""

from structout.fuzz import patterns, values
from structout.fuzz.building.demand import Demand
from structout.fuzz.choices import Choices
from structout.fuzz.subject import Structure


def wanted_names(choices: Choices, structure: Structure, demand: Demand, *, roomy: bool) -> dict[str, bool]:
    """Names to put in, and whether they are required: those that are, what they bring along and, if there is room, half
    of the others that the conjuncts speak of."""
    names = dict.fromkeys([*(name for listed in demand.values("required") for name in listed), *demand.required], True)
    for name in _spoken_of(structure, demand):
        if roomy and name not in names and name not in demand.avoided and choices.one_in(2):
            names[name] = False
    return _with_dependents(demand, names)


def _spoken_of(structure: Structure, demand: Demand) -> list[str]:
    declared = [str(inner.path[-1]) for node in demand.nodes for inner in structure.parts(node).get("properties", ())]
    return declared + [name for listed in _dependents(demand) for name in listed]


def _dependents(demand: Demand) -> list[dict[str, list[str]]]:
    """The maps of ``dependentRequired``, and what the older ``dependencies`` has of the kind."""
    maps = [*demand.values("dependentRequired"), *demand.values("dependencies")]
    return [{name: names for name, names in each.items() if isinstance(names, list)} for each in maps]


def _with_dependents(demand: Demand, names: dict[str, bool]) -> dict[str, bool]:
    maps = _dependents(demand)
    pending = list(names)
    while pending:
        name = pending.pop()
        fresh = [other for each in maps for other in each.get(name, ()) if other not in names]
        names.update(dict.fromkeys(fresh, names[name]))
        pending += fresh
    return names


def new_name(choices: Choices, structure: Structure, demand: Demand) -> str:
    """A name that matches one of ``patternProperties``, or any."""
    described = [
        str(inner.path[-1])
        for node in demand.nodes
        for inner in structure.parts(node).get("patternProperties", ())
        if inner.schema is not False
    ]
    if described and choices.one_in(2):
        return patterns.sample(choices, choices.pick(described))
    return values.string(choices) if choices.one_in(3) else values.name(choices)
