"""Draws an expression of a type.

A `Scope` holds what an expression may refer to: columns of its own query and of the queries around
it, and whether aggregates and windows are allowed. Subqueries come from `queries.py`, which this
file reaches through `Maker.subquery`.
"""

import dataclasses

import tree

from . import pools, signatures

EDGE_SHARE = 0.06
FORMS = (
    "text",
    "text",
    "text",
    "binary",
    "binary",
    "binary",
    "text?",
    "text?",
    "binary?",
)  # parameters; `?` leaves the type to the server
SIMPLE = {
    *(f"operator {name}" for name in ("+", "-", "*", "=", "<>", "<", "<=", ">", ">=", "||")),
    "_ AND _",
    "_ OR _",
    "NOT _",
    "_ IS NULL",
    "_ IS NOT NULL",
    "_ IS DISTINCT FROM _",
    "_ IN (_, _)",
    "CASE WHEN _ THEN _ ELSE _ END",
    "coalesce(_, _)",
    "length",
    "upper",
    "lower",
    "abs",
    "_ LIKE _",
    "count",
    "sum",
    "min",
    "max",
    "avg",
    "bool_and",
    "bool_or",
    "cast to int8",
    "cast to numeric",
    "cast to text",
}
HASHED = ("bool", "int2", "int4", "int8", "numeric", "text", "date", "timestamp", "float8")


@dataclasses.dataclass
class Scope:
    """The columns that an expression may refer to. `columns` and `outer` are nodes; `unique` are columns that identify a row."""

    columns: list
    outer: list = dataclasses.field(default_factory=list)
    unique: list | None = None
    aggregates: "Scope | None" = None  # the rows that are grouped: aggregates take arguments from it
    windows: bool = False
    grouped: bool = False

    def around(self):
        """The outer columns of a subquery in this scope."""
        return self.columns + self.outer


class Maker:
    """A seeded generator of expressions. `avoided` are tags of known faults, drawn rarely."""

    def __init__(self, draw, subquery=None):
        self.draw, self.subquery = draw, subquery
        self.signatures = SIGNATURES
        self.parameters = 0.0  # the share of literals that become parameters
        self.avoided = {}
        self.without = frozenset()  # types that are not drawn
        self.simple = False  # only the families of SIMPLE, to look at the shapes of queries
        self.floats = False  # a float aggregate was drawn

    def chance(self, share):
        return self.draw.random() < share

    # ------------------------------------------------------------ literals

    def literal(self, type_, values=()):
        pool = values or (pools.EDGE.get(type_, pools.TAME[type_]) if self.chance(EDGE_SHARE) else pools.TAME[type_])
        value = self.draw.choice(pool)
        if not values and self.chance(0.04):
            value = None
        if self.chance(self.parameters):
            form = self.draw.choice(FORMS)
        else:
            form = "plain" if value is not None and self.chance(0.8) else "cast"
        return tree.literal(type_, value, form)

    # ------------------------------------------------------------ expressions

    def expression(self, type_, scope, depth):
        if depth <= 0 or self.chance(0.2):
            return self.leaf(type_, scope)
        roll = self.draw.random()
        if scope.aggregates is not None and roll < 0.35:
            made = self.aggregate(type_, scope.aggregates, depth)
        elif scope.windows and roll < 0.2:
            made = self.window(type_, scope, depth)
        elif self.subquery and roll < 0.28 and roll > 0.2 and depth > 1:
            made = self.subquery(type_, scope, depth)
        else:
            made = self.call(type_, scope, depth)
        return made or self.leaf(type_, scope)

    def leaf(self, type_, scope):
        fitting = [node for node in scope.columns if node.type == type_]
        around = [node for node in scope.outer if node.type == type_]
        if around and self.chance(0.35):
            return self.draw.choice(around)
        if fitting and self.chance(0.85):
            return self.draw.choice(fitting)
        if scope.aggregates is not None and self.chance(0.5):
            found = self.aggregate(type_, scope.aggregates, 1)
            if found:
                return found
        return self.literal(type_)

    def call(self, type_, scope, depth):
        signature = self.signature("scalar", type_)
        return signature and self.filled(signature, scope, depth)

    def signature(self, kind, type_):
        families = self.signatures[kind].get(type_)
        if not families:
            return None
        for _ in range(8):
            signature = self.draw.choice(families[self.draw.choice(self.names(kind, type_))])
            if not self.chance(self.avoided.get(signature.tag, 0)) and not self.without & types_of(signature):
                return signature
        return None

    def names(self, kind, type_):
        """Families of a type; plain operators occur several times, because statements are full of them."""
        key = (kind, type_, self.simple)
        known = NAMES.get(key)
        if known is None:
            families = self.signatures[kind][type_]
            if self.simple:
                families = [family for family in families if family in SIMPLE] or list(families)[:1]
            often = [family for family in families if family.startswith("operator")]
            known = NAMES[key] = [*families, *often * max(1, len(families) // (4 * len(often) or 1))]
        return known

    def filled(self, signature, scope, depth):
        parts = [
            self.slot(part, scope, depth - 1) if isinstance(part, signatures.Slot) else part for part in signature.parts
        ]
        return tree.expr(signature.type, signature.tag, *parts)

    def slot(self, slot, scope, depth):
        if slot.word:
            return self.draw.choice(slot.values)
        if slot.values:
            return self.literal(slot.type, slot.values)
        return self.expression(slot.type, scope, depth)

    # ------------------------------------------------------------ aggregates

    def aggregate(self, type_, scope, depth, outermost=False):
        """An aggregate; only an `outermost` one may depend on the order of rows in its last digits."""
        plain = Scope(scope.columns, scope.outer, scope.unique)
        special = self.ordered_aggregate(type_, plain) if self.chance(0.25) else None
        if special:
            return special
        signature = self.signature("aggregate", type_)
        if not signature:
            return None
        inner = [
            self.slot(part, plain, min(depth, 2) - 1) if isinstance(part, signatures.Slot) else part
            for part in signature.parts
        ]
        if signature.float_sum:
            if not outermost and signature.family not in ("sum", "avg"):
                return None
            self.floats = True
            inner = [self.tame_float(node, plain) if isinstance(node, tree.Node) else node for node in inner]
        if self.only_outer(inner, plain):
            return None
        parts, tag = list(inner), signature.tag
        if self.chance(0.15) and len(parts) == 3 and not signature.float_sum:
            parts.insert(1, tree.option("DISTINCT ", tag="DISTINCT in aggregate"))
        if self.chance(0.2):
            parts.append(tree.option(" FILTER (WHERE ", self.expression("bool", plain, 1), ")", tag="FILTER"))
        return tree.expr(type_, tag, *parts)

    def only_outer(self, nodes, scope):
        """Whether the nodes have outer columns only: such an aggregate would belong to the outer query."""
        found = [node for part in nodes if isinstance(part, tree.Node) for node in part.walk() if node.kind == "column"]
        return any(node in scope.outer for node in found) and not any(node in scope.columns for node in found)

    def tame_float(self, node, scope):
        """Sums of extreme floats depend on their order (cancellation), so only tame columns are added."""
        fitting = [
            found
            for found in scope.columns
            if found.type == node.type and found.parts[0].endswith((".f4", ".f8", ".kf"))
        ]
        return self.draw.choice(fitting) if fitting else tree.literal(node.type, "1.5", "cast")

    def ordered_aggregate(self, type_, scope):
        if not scope.unique:
            return None
        order = tree.frozen(*spaced(scope.unique))
        if type_ == "text":
            return tree.expr(
                type_,
                "string_agg(text, text)",
                "string_agg(",
                self.expression("text", scope, 1),
                ", ",
                self.literal("text", (",", "")),
                " ORDER BY ",
                order,
                ")",
            )
        if type_.endswith("[]"):
            return tree.expr(
                type_,
                f"array_agg({type_[:-2]})",
                "array_agg(",
                self.expression(type_[:-2], scope, 1),
                " ORDER BY ",
                order,
                self.draw.choice(["", " DESC"]),
                ")",
            )
        if type_ == "jsonb":
            kind = self.draw.choice(["int4", "text", "numeric", "bool"])
            value = self.expression(kind, scope, 1)
            if len(scope.unique) == 1 and self.chance(0.3):
                parts = ["jsonb_object_agg(", tree.frozen(scope.unique[0]), "::text, ", value, ")"]
                return tree.expr(type_, f"jsonb_object_agg({kind})", *parts)
            return tree.expr(type_, f"jsonb_agg({kind})", "jsonb_agg(", value, " ORDER BY ", order, ")")
        if type_ in ("int8", "float8") and self.chance(0.3):
            name = self.draw.choice(["rank", "dense_rank"] if type_ == "int8" else ["percent_rank", "cume_dist"])
            key = self.draw.choice(["int4", "numeric", "text"])
            value, order = self.literal(key), self.expression(key, scope, 1)
            return tree.expr(type_, f"{name} WITHIN GROUP", f"{name}(", value, ") WITHIN GROUP (ORDER BY ", order, ")")
        if type_ == "float8" and self.chance(0.5):
            self.floats = True
            return tree.expr(
                type_,
                "percentile_cont",
                "percentile_cont(",
                self.draw.choice(["0.5", "0.25", "0", "1"]),
                ") WITHIN GROUP (ORDER BY ",
                self.tame_float(tree.literal("float8", "1"), scope),
                ")",
            )
        if type_ in HASHED and type_ != "bool":
            name = self.draw.choice(["percentile_disc(0.5)", "percentile_disc(0.9)", "mode()"])
            return tree.expr(
                type_, f"{name} of {type_}", f"{name} WITHIN GROUP (ORDER BY ", self.expression(type_, scope, 1), ")"
            )
        return None

    # ------------------------------------------------------------ windows

    def window(self, type_, scope, depth):
        plain = Scope(scope.columns, scope.outer, scope.unique)
        call, total, frame = self.window_call(type_, plain, depth)
        if call is None:
            return None
        parts = [call, " OVER ("]
        if self.chance(0.6):
            keys = [self.expression(self.draw.choice(HASHED), plain, 1) for _ in range(self.draw.choice([1, 1, 2]))]
            keys = [key for key in keys if key.kind != "literal"] or None
            if keys:
                parts.append(tree.option("PARTITION BY ", tree.listed(keys), tag="PARTITION BY"))
        bounds = self.frame() if frame and self.chance(0.4) else None
        rows = bounds is not None and bounds[0].startswith(" ROWS")
        if total or rows:
            if not scope.unique:
                return None
            first = [self.draw.choice(scope.columns)] if self.chance(0.6) else []
            first = [node for node in first if node.type not in ("jsonb", "interval", "bytea", "bool")]
            parts += [" ORDER BY ", tree.frozen(*spaced([*first, *scope.unique], self.draw.choice(["", " DESC"])))]
        elif bounds or self.chance(0.7):
            kind = self.draw.choice(["int4", "int8", "numeric", "text", "date"])
            parts += [
                " ORDER BY ",
                self.expression(kind, plain, 1),
                self.draw.choice(["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]),
            ]
        if bounds:
            parts.append(tree.option(bounds[0], tag=bounds[1]))
        parts.append(")")
        return tree.expr(type_, "", *parts)

    def frame(self):
        unit = self.draw.choice(["ROWS", "RANGE", "GROUPS"])
        steps = ["UNBOUNDED PRECEDING", "CURRENT ROW", "UNBOUNDED FOLLOWING"]
        if unit != "RANGE":
            steps[1:1] = ["2 PRECEDING", "1 PRECEDING"]
            steps[-1:-1] = ["1 FOLLOWING", "3 FOLLOWING"]
        low = self.draw.randrange(len(steps) - 1)
        high = self.draw.randrange(max(low, 1), len(steps))
        exclude = self.draw.choice(
            ["", "", "", " EXCLUDE CURRENT ROW", " EXCLUDE TIES", " EXCLUDE GROUP", " EXCLUDE NO OTHERS"]
        )
        return f" {unit} BETWEEN {steps[low]} AND {steps[high]}{exclude}", f"frame {unit}{exclude}"

    def window_call(self, type_, scope, depth):
        """A call, whether it needs a total order, and whether it may have a frame."""
        value = lambda: self.expression(type_, scope, 1)
        named = lambda name, *parts: tree.expr(type_, f"{name} OVER", *parts)
        roll = self.draw.randrange(6)
        if type_ == "int8" and roll < 2:
            name = self.draw.choice(["row_number", "rank", "dense_rank"])
            return named(name, f"{name}()"), name == "row_number", False
        if type_ == "int4" and roll < 2:
            return named("ntile", "ntile(", self.literal("int4", ("2", "3", "7")), ")"), True, False
        if type_ == "float8" and roll < 3:
            name = self.draw.choice(["percent_rank", "cume_dist"])
            return named(name, f"{name}()"), False, False
        if roll == 3:
            name = self.draw.choice(["lag", "lead"])
            more = self.draw.choice(
                [
                    (),
                    (", ", self.literal("int4", ("0", "1", "2"))),
                    (", ", self.literal("int4", ("1", "3")), ", ", value()),
                ]
            )
            return named(name, f"{name}(", value(), *more, ")"), True, False
        if roll == 4:
            name = self.draw.choice(["first_value", "last_value"])
            return named(name, f"{name}(", value(), ")"), True, True
        if roll == 5 and self.chance(0.5):
            return (
                named("nth_value", "nth_value(", value(), ", ", self.literal("int4", ("1", "2", "3")), ")"),
                True,
                True,
            )
        signature = self.signature("aggregate", type_)
        if not signature or signature.float_sum:
            return None, False, False
        parts = [self.slot(part, scope, 1) if isinstance(part, signatures.Slot) else part for part in signature.parts]
        if self.chance(0.1):
            parts.append(tree.option(" FILTER (WHERE ", self.expression("bool", scope, 1), ")", tag="FILTER OVER"))
        return tree.expr(type_, f"{signature.tag} OVER", *parts), False, True


def types_of(signature):
    return {signature.type, *(part.type for part in signature.parts if isinstance(part, signatures.Slot))}


def spaced(nodes, suffix=""):
    parts = []
    for number, node in enumerate(nodes):
        parts += [", ", node, suffix] if number else [node, suffix]
    return parts


SIGNATURES = signatures.load()
NAMES = {}
