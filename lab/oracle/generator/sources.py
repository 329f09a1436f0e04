"""Draws a FROM clause: tables, subqueries, VALUES, functions, and how they are joined.

`Sources` is the part of `queries.Generator` that makes sources; the queries in them come from there.
"""

import tree

from .expressions import Scope, spaced

LARGE, SMALL = ("t", "s", "lineitem", "orders"), ("w", "w", "a", "b", "nation", "e", "customer", "ids")
FAMILIES = (("int2", "int4", "int8", "numeric", "float4", "float8"), ("text",), ("date", "timestamp", "timestamptz"))


class Sources:
    """Draws sources. Needs `draw`, `tables`, `maker`, `chance`, `kind`, `query` and `select`."""

    def alias(self, prefix="q"):
        self.aliases += 1
        return f"{prefix}{self.aliases}"

    def sources(self, scope, depth, ctes):
        """The scope of a FROM clause, and its node."""
        around = scope.around()
        if depth > 1 and self.chance(0.06):
            return self.star(around)
        count = self.draw.choice([1, 1, 1, 2, 2, 3]) if depth > 1 else self.draw.choice([1, 1, 2])
        large = self.chance(0.5) and count < 3
        node, columns, unique = self.source(around, depth, ctes, large)
        self.merged, self.may_merge = [], count == 2
        for _ in range(count - 1):
            lateral = self.chance(0.12) and depth > 1
            if lateral:
                node, columns, unique = self.lateral(node, columns, unique, around, depth)
                continue
            other, more, keys = self.source(around, depth, ctes, False)
            node = self.join(node, columns, other, more, around, large)
            columns, unique = columns + more + self.merged, unique and keys and unique + keys
        return Scope(columns, around, unique or None), node

    def star(self, around):
        """TPC-H's way of joining: line items with their orders, customers and nations."""
        steps = (
            ("lineitem", "orders", "l_orderkey", "o_orderkey"),
            ("orders", "customer", "o_custkey", "c_custkey"),
            ("customer", "nation", "c_nationkey", "n_nationkey"),
        )
        first = self.draw.choice([0, 0, 1])
        steps = steps[first : self.draw.randrange(first + 1, 4)]
        names = {name: self.alias() for name in (steps[0][0], *(step[1] for step in steps))}
        node = tree.fixed(f"{steps[0][0]} {names[steps[0][0]]}")
        for left, right, key, other in steps:
            kind = self.draw.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
            condition = f" ON {names[left]}.{key} = {names[right]}.{other}"
            node = tree.fixed(node, tree.option(f" {kind} {right} {names[right]}", condition, tag=kind))
        columns = [
            tree.column(f"{alias}.{column}", kind.split("(")[0])
            for name, alias in names.items()
            for column, kind, _ in self.tables[name].columns
        ]
        keys = {f"{alias}.{key}" for name, alias in names.items() for key in self.tables[name].unique}
        return Scope(columns, around, [column for column in columns if column.parts[0] in keys]), node

    def source(self, around, depth, ctes, large):
        roll = self.draw.random()
        if ctes and roll < 0.6:
            name, columns = self.draw.choice(ctes)
            alias = self.alias()
            return tree.fixed(f"{name} {alias}"), [tree.column(f"{alias}.{c}", kind) for c, kind in columns], None
        if depth > 1 and roll < 0.15 and not large:
            alias = self.alias()
            types = [self.kind() for _ in range(3)]
            inner = self.query(Scope([], around if self.chance(0.6) else []), depth - 1, types, names=True)
            return (
                tree.fixed("(", inner, f") {alias}", tag="derived table"),
                [tree.column(f"{alias}.c{i + 1}", kind) for i, kind in enumerate(types)],
                None,
            )
        if roll < 0.17 and not large and depth > 1:
            return self.recursive()
        if roll < 0.2 and not large:
            return self.values()
        if roll < 0.24 and not large:
            return self.series()
        table = self.tables[self.draw.choice(LARGE if large else SMALL)]
        alias = self.alias()
        columns = [tree.column(f"{alias}.{name}", kind.split("(")[0]) for name, kind, _ in table.columns]
        unique = [node for node in columns if node.parts[0].split(".")[1] in table.unique] or None
        return tree.fixed(f"{table.name} {alias}"), columns, unique

    def values(self):
        alias, types = self.alias("v"), [self.kind() for _ in range(2)]
        rows = [
            tree.fixed("(", tree.fixed(*spaced([self.maker.literal(kind) for kind in types])), ")")
            for _ in range(self.draw.choice([1, 3]))
        ]
        typed = tree.fixed("(", tree.fixed(*spaced([tree.literal(kind, None, "cast") for kind in types])), ")")
        names = ", ".join(f"c{i + 1}" for i in range(len(types)))
        node = tree.fixed("(VALUES ", tree.listed([typed, *rows]), f") {alias}({names})", tag="VALUES")
        return node, [tree.column(f"{alias}.c{i + 1}", kind) for i, kind in enumerate(types)], None

    def recursive(self):
        alias = self.alias("r")
        start, step, end = (
            self.draw.choice(["0", "1"]),
            self.draw.choice(["c1 + 1", "c1 + 2", "c1 * 2 + 1"]),
            self.draw.choice(["3", "6"]),
        )
        union = self.draw.choice(["UNION ALL", "UNION"])
        text = f"(WITH RECURSIVE c(c1) AS (SELECT {start} {union} SELECT {step} FROM c WHERE c1 < {end}) SELECT c1 FROM c) {alias}"
        return (
            tree.fixed(text, tag="WITH RECURSIVE"),
            [tree.column(f"{alias}.c1", "int4")],
            [tree.column(f"{alias}.c1", "int4")],
        )

    def series(self):
        alias = self.alias("f")
        call, kind = self.draw.choice(
            [
                ("generate_series(1, 5)", "int4"),
                ("generate_series(0, 10, 3)", "int4"),
                ("generate_series(3, 1, -1)", "int4"),
                ("unnest(ARRAY[1, 2, NULL])", "int4"),
                ("unnest(ARRAY['a', NULL, 'b'])", "text"),
                ("generate_series(timestamp '2024-01-30', timestamp '2024-03-01', interval '1 week')", "timestamp"),
                ("generate_series(1::bigint, 3)", "int8"),
                ("generate_series(0.5, 2, 0.5)", "numeric"),
                ("string_to_table('a,b,,c', ',')", "text"),
                ("regexp_split_to_table('a b  c', ' ')", "text"),
                ("generate_subscripts(ARRAY[5,6], 1)", "int4"),
            ]
        )
        tag = f"FROM {call.partition('(')[0]}"
        if self.chance(0.25):
            return (
                tree.fixed(f"{call} WITH ORDINALITY {alias}(c1, o)", tag=f"{tag} WITH ORDINALITY"),
                [tree.column(f"{alias}.c1", kind), tree.column(f"{alias}.o", "int8")],
                [tree.column(f"{alias}.o", "int8")],
            )
        return tree.fixed(f"{call} {alias}(c1)", tag=tag), [tree.column(f"{alias}.c1", kind)], None

    def lateral(self, node, columns, unique, around, depth):
        alias, types = self.alias("l"), [self.kind() for _ in range(2)]
        inner = self.select(Scope([], columns + around), depth - 1, types, True, ())
        join = self.draw.choice([", LATERAL (", " CROSS JOIN LATERAL (", " LEFT JOIN LATERAL ("])
        end = f") {alias} ON true" if "LEFT" in join else f") {alias}"
        made = tree.fixed(node, tree.option(join, inner, end, tag="LATERAL"))
        return made, columns + [tree.column(f"{alias}.c{i + 1}", kind) for i, kind in enumerate(types)], None

    def join(self, left, left_columns, right, right_columns, around, large):
        kind = self.draw.choice(["INNER JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", ","])
        if kind in ("CROSS JOIN", ",") and not large:
            return tree.fixed(left, tree.option(f"{kind if kind == ',' else ' ' + kind} ", right, tag=kind))
        kind = "LEFT JOIN" if kind in ("CROSS JOIN", ",") else kind
        shared = self.may_merge and self.chance(0.25) and self.shared(left_columns, right_columns)
        if shared:
            self.merged = [tree.column(name, type_) for name, type_ in shared if type_]
            names = ", ".join(name for name, _ in shared)
            return tree.fixed(left, tree.option(f" {kind} ", right, f" USING ({names})", tag=f"{kind} USING"))
        condition = self.equality(left_columns, right_columns) or tree.fixed("true")
        conditions = [condition]
        if kind != "FULL JOIN" and self.chance(0.35):
            conditions.append(self.maker.expression("bool", Scope(left_columns + right_columns, around), 2))
        return tree.fixed(left, tree.option(f" {kind} ", right, " ON ", tree.listed(conditions, " AND "), tag=kind))

    def shared(self, left, right):
        """One or two names that both sides have, with the type of the merged column if both have that type."""
        names = [
            {node.parts[0].split(".")[1]: node.type for node in side if "." in node.parts[0]} for side in (left, right)
        ]
        common = [
            (name, kind if names[1][name] == kind else "")
            for name, kind in names[0].items()
            if any(kind in family and names[1].get(name) in family for family in FAMILIES)
        ]
        return self.draw.sample(common, min(len(common), self.draw.choice([1, 1, 2]))) if common else None

    def equality(self, left, right):
        """Equality between columns of one family of types, often with different types."""
        pairs = [
            (a, b)
            for a in left
            for b in right
            if a.type == b.type or any(a.type in family and b.type in family for family in FAMILIES)
        ]
        pairs = [pair for pair in pairs if pair[0].type not in ("jsonb",)]
        if not pairs:
            return None
        alike = [pair for pair in pairs if pair[0].type == pair[1].type]
        a, b = self.draw.choice(alike if alike and self.chance(0.6) else pairs)
        roll = self.draw.random()
        if roll < 0.1:
            return tree.expr("bool", f"join on {a.type} IS NOT DISTINCT FROM", a, " IS NOT DISTINCT FROM ", b)
        if roll < 0.18:
            others = [node for node in left if node.type == a.type and node is not a]
            if others and a.type == b.type:
                both = ("coalesce(", a, ", ", self.draw.choice(others), ")")
                return tree.expr("bool", "join on coalesce(two columns)", *both, " = ", b)
        if roll < 0.3 and small(a) and small(b):
            shift = self.draw.choice([" + 1", " - 1", " + 5"])
            sides = (a, " = ", b, shift) if self.chance(0.5) else (a, shift, " = ", b)
            return tree.expr("bool", "join on a shifted key", *sides)
        return tree.expr("bool", f"join on {a.type} = {b.type}", a, " = ", b)


def small(column):
    """Is it an integer far from the ends of its type?"""
    return column.type in ("int4", "int8") and not column.parts[0].partition(".")[2].startswith("x")
