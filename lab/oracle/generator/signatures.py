"""Which expressions yield a type?

Signatures come from `catalogue.tsv` (functions, operators, aggregates and casts from PostgreSQL's
catalogue) and from `templates.tsv` (everything that has a syntax of its own). In a template
`{int4}` is a slot for any expression of the type, `{int4:1|2}` one for a literal of that list,
`{field:date}` a word, and `{Any}`, `{Ord}`, `{Num}` stand for each of several types, the same
throughout the template (`{Nun}` is a number type drawn apart from `{Num}`).

A signature's `family` is its name without types: families are drawn with equal weight, so that an
operator over 30 pairs of types does not crowd out a function.
"""

import dataclasses
import os
import re

from . import pools

HERE = os.path.dirname(__file__)
GROUPS = {
    "Any": (
        "bool",
        "int2",
        "int4",
        "int8",
        "float4",
        "float8",
        "numeric",
        "text",
        "bytea",
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "interval",
    ),
    "Ord": (
        "int2",
        "int4",
        "int8",
        "float4",
        "float8",
        "numeric",
        "text",
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "interval",
    ),
    "Num": pools.NUMBERS,
    "Nun": pools.NUMBERS,
}
SLOT = re.compile(r"\{([^{}:]+)(?::((?:'[^']*'|[^{}'])*))?\}")
CHOICE = re.compile(r"'[^']*'|[^|']+")


@dataclasses.dataclass(frozen=True)
class Slot:
    """A place for an expression, or (with `values`) for a literal; `word` means a bare word."""

    type: str
    values: tuple = ()
    word: bool = False


@dataclasses.dataclass(frozen=True)
class Signature:
    type: str
    family: str
    tag: str
    parts: tuple  # of str and Slot
    aggregate: bool = False
    float_sum: bool = False


def load():
    """All signatures, by kind: `scalar` and `aggregate`, each a dictionary by result type."""
    kinds = {"scalar": {}, "aggregate": {}}
    for signature in [*from_catalogue(), *from_templates()]:
        by_type = kinds["aggregate" if signature.aggregate else "scalar"]
        by_type.setdefault(signature.type, {}).setdefault(signature.family, []).append(signature)
    return kinds


# ---------------------------------------------------------------- the catalogue


def from_catalogue():
    for line in lines("catalogue.tsv"):
        kind, name, args, result = line.split("\t")
        args = args.split()
        if kind == "cast":
            if name == "e" and args != ["numeric"]:  # explicit only
                name = "explicit"
            yield Signature(result, f"cast to {result}", f"{args[0]}::{result}", (Slot(args[0]), f"::{result}"))
        elif (
            name in ("timezone", "extract", "substring", "position", "overlay")
            and kind == "function"
            and not name_callable(name)
        ):
            continue
        else:
            yield called(kind, name, args, result)


def name_callable(name):
    """Not `extract` and `position`, which have a syntax of their own: templates have them."""
    return name not in ("extract", "position")


def called(kind, name, args, result):
    slots = [slot_of(kind, name, args, i) for i in range(len(args))]
    tag = f"{name}({', '.join(args)})"
    if kind == "operator":
        return Signature(
            result, f"operator {name}", f"{args[0]} {name} {args[1]}", ("(", slots[0], f" {name} ", slots[1], ")")
        )
    if kind == "prefix":
        return Signature(result, f"prefix {name}", f"{name} {args[0]}", ("(", f"{name} ", slots[0], ")"))
    parts = [f"{name}("]
    for number, slot in enumerate(slots):
        parts += [", ", slot] if number else [slot]
    if not slots and kind == "aggregate":
        parts.append("*")
    floats = (
        kind == "aggregate"
        and args
        and args[0] in ("float4", "float8")
        and name not in ("max", "min", "count", "regr_count")
    )
    return Signature(result, name, tag, (*parts, ")"), aggregate=kind == "aggregate", float_sum=floats)


def slot_of(kind, name, args, position):
    values = pools.argument(name, args, position) if kind != "aggregate" else None
    return Slot(args[position], tuple(values or ()))


# ---------------------------------------------------------------- the templates


def from_templates():
    for line in lines("templates.tsv"):
        result, template = line.split("\t")
        groups = [group for group in GROUPS if f"{{{group}}}" in template or result == group]
        for chosen in combinations(groups):
            yield expanded(result, template, chosen)


def combinations(groups):
    found = [{}]
    for group in groups:
        found = [{**known, group: kind} for known in found for kind in GROUPS[group]]
    return found


def expanded(result, template, chosen):
    parts, at, shape = ["("], 0, template
    for match in SLOT.finditer(template):
        kind, values = match.group(1), match.group(2)
        parts.append(template[at : match.start()])
        at = match.end()
        if kind == "field":
            parts.append(Slot("text", tuple(pools.FIELDS[values]), word=True))
        else:
            choices = tuple(choice.strip("'") for choice in CHOICE.findall(values)) if values is not None else ()
            parts.append(Slot(chosen.get(kind, kind), choices))
    for group, kind in chosen.items():
        shape = shape.replace(f"{{{group}}}", f"{{{kind}}}")
    shape = SLOT.sub(lambda match: match.group(1) if match.group(1) != "field" else "field", shape)
    parts += [template[at:], ")"]
    family = SLOT.sub(lambda match: "_", template)
    return Signature(chosen.get(result, result), family, shape, tuple(part for part in parts if part != ""))


def lines(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file if line.strip() and not line.startswith("#")]
