"""Draws a statement: select lists, grouping, set operations, subqueries in every position.

Q1: a LIMIT stands over a total order (`tree.T1`), or over the unique columns of base tables, frozen.
Q2: sizes stay small: a join has at most one large table, and joins it by equality.
"""

import tree

from .expressions import HASHED, Maker, Scope, spaced
from .sources import Sources

TYPES = (
    "bool",
    "int2",
    "int4",
    "int4",
    "int8",
    "int8",
    "float4",
    "float8",
    "numeric",
    "numeric",
    "text",
    "text",
    "bytea",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "interval",
    "int4[]",
    "text[]",
    "numeric[]",
    "jsonb",
    "uuid",
)
SUFFIXES = ("", "", " ASC", " DESC", " NULLS FIRST", " DESC NULLS LAST", " ASC NULLS LAST")
UNSORTABLE = ("json", "interval", "jsonb")  # equal values that print differently, or types without an order


class Statement:
    """A tree and how it is sent; with `again` as a prepared statement that was executed with other values."""

    def __init__(self, root, loose, again=False):
        self.root, self.loose, self.again = root, loose, again


class Generator(Sources):
    """Draws statements over `tables` (see `data.py`)."""

    def __init__(self, draw, tables):
        self.draw = draw
        self.tables = {table.name: table for table in tables}
        self.maker = Maker(draw, self.subquery)
        self.aliases = 0
        self.depth = 0
        self.merged, self.may_merge, self.last_scope = [], False, None

    def chance(self, share):
        return self.draw.random() < share

    def kind(self):
        """A type for a column of a query."""
        while True:
            found = self.draw.choice(TYPES)
            if found not in self.maker.without:
                return found

    def statement(self):
        self.aliases, self.depth, self.maker.floats = 0, 0, False
        self.maker.parameters = self.draw.choice([0, 0, 0, 0.3, 0.8])
        roll = self.draw.random()
        if roll < 0.12:
            root = self.constants()
        elif roll < 0.35:
            root = self.plain()
        elif roll < 0.36:
            root = self.distinct_on()
        elif roll < 0.38:
            root = self.rows_of_functions()
        elif roll < 0.41:
            root = self.change()
        elif roll < 0.43:
            root = self.by_position()
        else:
            root = self.query(Scope([]), 3, [self.kind() for _ in range(self.draw.choice([1, 1, 2, 3]))], top=True)
        return Statement(root, self.maker.floats, self.chance(0.3))

    def constants(self):
        """An expression over literals, which the planner folds."""
        items = [
            tree.fixed(self.maker.expression(self.kind(), Scope([]), 3)) for _ in range(self.draw.choice([1, 1, 2]))
        ]
        return tree.Node("query", (tree.EMPTY, tree.Node("select", ("SELECT ", tree.listed(items)))))

    def distinct_on(self):
        """DISTINCT ON over one table: the first row of each key in a total order."""
        node, columns, unique = self.source([], 1, (), True)
        scope = Scope(columns, unique=unique)
        keys = [node for node in columns if node.type in ("int4", "text", "bool", "date")]
        key = self.draw.choice(keys)
        second = self.draw.choice([node for node in columns if node.type in HASHED])
        items = [tree.fixed(self.maker.expression(self.kind(), scope, 2)) for _ in range(2)]
        order = tree.frozen(" ORDER BY ", *spaced([key, second, *unique], self.draw.choice(["", " DESC"])))
        return tree.Node(
            "query",
            (
                tree.EMPTY,
                tree.Node(
                    "select",
                    (
                        "SELECT ",
                        tree.fixed("DISTINCT ON (", tree.frozen(key), ") ", tag="DISTINCT ON"),
                        tree.listed(items),
                        tree.fixed(" FROM ", node),
                        order,
                    ),
                ),
            ),
        )

    def rows_of_functions(self):
        """A function that returns rows in a select list."""
        node, columns, unique = self.source([], 1, (), True)
        scope = Scope(columns, unique=unique)
        call, kind = self.draw.choice(
            [
                ("unnest(", "int4[]"),
                ("unnest(", "text[]"),
                ("generate_series(1, ", "int4:3"),
                ("regexp_split_to_table(", "text+"),
                ("string_to_table(", "text,"),
                ("jsonb_array_elements(", "jsonb["),
                ("generate_subscripts(", "int4[]1"),
            ]
        )
        values = {"int4:3": ("1", "3", "0"), "jsonb[": ("[1, 2]", "[]", '[{"a": 1}]')}.get(kind, ())
        end = {"text+": ", 'a+')", "text,": ", 'b')", "int4[]1": ", 1)"}.get(kind, ")")
        type_ = kind.rstrip(":3+,1") if kind != "jsonb[" else "jsonb"
        argument = self.maker.literal(type_, values) if values else self.maker.expression(type_, scope, 2)
        items = [
            tree.fixed(call, argument, end, tag=f"{call}) in a select list"),
            tree.fixed(self.maker.expression(self.kind(), scope, 1)),
        ]
        where = (
            tree.option(" WHERE ", tree.listed([self.maker.expression("bool", scope, 2)]))
            if self.chance(0.4)
            else tree.EMPTY
        )
        select = tree.Node("select", ("SELECT ", tree.listed(items), tree.option(" FROM ", node), where))
        return tree.Node("query", (tree.EMPTY, select))

    def change(self):
        """DELETE or UPDATE of a session's own table, then a query of its rows."""
        kept, self.maker.parameters = self.maker.parameters, 0
        names = ("k", "g", "i4", "i8", "f8", "n2", "t", "b", "d", "ts")
        columns = [
            tree.column(f"o.{name}", kind.split("(")[0]) for name, kind, _ in self.tables["w"].columns if name in names
        ]
        scope = Scope(columns)
        where = tree.option(
            " WHERE ", tree.listed([self.predicate(scope, 2) for _ in range(self.draw.choice([1, 1, 2]))], " AND ")
        )
        if self.chance(0.5):
            verb = tree.fixed("DELETE FROM o", tag="DELETE")
        else:
            changed = self.draw.sample(columns[1:], self.draw.choice([1, 1, 2]))
            parts = [
                tree.fixed(f"{node.parts[0][2:]} = ", self.maker.expression(node.type, scope, 2)) for node in changed
            ]
            verb = tree.fixed("UPDATE o SET ", tree.listed(parts), tag="UPDATE")
        self.maker.parameters = kept
        made = (
            f"DROP TABLE IF EXISTS o; CREATE TEMP TABLE o AS SELECT {', '.join(names)} FROM {self.draw.choice('wwt')}; "
        )
        return tree.fixed(made, verb, where, "; SELECT * FROM o")

    def by_position(self):
        """GROUP BY positions of the select list."""
        self.maker.parameters = 0
        scope, node = self.sources(Scope([]), 2, ())
        keys = [self.maker.expression(self.draw.choice(HASHED), scope, 1) for _ in range(self.draw.choice([1, 2]))]
        values = [self.maker.aggregate(kind, scope, 2) or tree.fixed("count(*)") for kind in ("int8", "numeric")]
        items = tree.fixed(*spaced([*keys, *values]))
        order = (
            tree.option(" ORDER BY ", ", ".join(str(i + 1) for i in range(len(keys) + 2)))
            if self.chance(0.5)
            else tree.EMPTY
        )
        group = tree.fixed(" GROUP BY ", ", ".join(str(i + 1) for i in range(len(keys))), tag="GROUP BY position")
        where = tree.option(" WHERE ", self.maker.expression("bool", scope, 2)) if self.chance(0.4) else tree.EMPTY
        return tree.fixed("SELECT ", items, " FROM ", node, where, group, order)

    def plain(self):
        """Expressions over one table, and nothing else."""
        node, columns, unique = self.source([], 1, (), self.chance(0.7))
        scope, types = Scope(columns, unique=unique), [self.kind() for _ in range(self.draw.choice([1, 1, 2]))]
        items = [tree.fixed(self.maker.expression(kind, scope, self.draw.choice([1, 2, 2, 3]))) for kind in types]
        where = (
            tree.option(" WHERE ", tree.listed([self.maker.expression("bool", scope, 2)]))
            if self.chance(0.3)
            else tree.EMPTY
        )
        tail = (
            tree.Tail(("",), self.draw.choice(["", "10"]))
            if self.chance(0.4) and not any(kind in UNSORTABLE for kind in types)
            else None
        )
        return tree.Node(
            "query",
            (tree.EMPTY, tree.Node("select", ("SELECT ", tree.listed(items), tree.option(" FROM ", node), where))),
            tail=tail,
        )

    # ------------------------------------------------------------ queries

    def query(self, scope, depth, types, top=False, names=False, ctes=()):
        known = list(ctes)
        parts = []
        if depth > 1 and self.chance(0.1 if top else 0.03):
            for _ in range(self.draw.choice([1, 1, 2])):
                name, source, columns = self.common(scope, depth - 1, known)
                known.append((name, columns))
                parts.append(source)
        head = tree.option("WITH ", tree.listed(parts), " ", tag="WITH") if parts else tree.EMPTY
        body = self.body(scope, depth, types, names, known)
        tail = None
        if top and self.chance(0.6) and not any(kind in UNSORTABLE for kind in types):
            suffixes = tuple(self.draw.choice(SUFFIXES) for _ in types)
            limit = self.draw.choice(
                ["", "", "", "1", "5", "20", "0", "FETCH FIRST 3 ROWS ONLY", "FETCH NEXT 2 ROWS WITH TIES", "ALL"]
            )
            offset = self.draw.choice(["", "", "", "1", "7"]) if limit or self.chance(0.1) else ""
            turn = self.draw.choice([0, 0, 1, 2])
            tail = tree.Tail(suffixes, limit, offset if "FETCH" not in limit else "", turn)
        first = self.first_key(body) if tail else tree.EMPTY
        self.last_scope = None
        return tree.Node("query", (head, body, first), tail=tail)

    def first_key(self, body):
        """An expression to order by in front of the columns."""
        if (
            body.kind != "select"
            or self.last_scope is None
            or not self.chance(0.2)
            or "DISTINCT" in tree.tags(body.parts[1])
        ):
            return tree.EMPTY
        key = self.maker.expression(self.draw.choice(HASHED), self.last_scope, 2)
        return (
            tree.EMPTY
            if key.kind == "literal"
            else tree.option(
                tree.fixed(key, self.draw.choice(["", " DESC", " NULLS FIRST"])), tag="ORDER BY expression"
            )
        )

    def common(self, scope, depth, known):
        name = self.alias("c")
        types = [self.kind() for _ in range(self.draw.choice([1, 2, 3]))]
        inner = self.query(Scope([], scope.outer), depth, types, names=True, ctes=known)
        materialized = self.draw.choice(["", "", "MATERIALIZED ", "NOT MATERIALIZED "])
        columns = [(f"c{i + 1}", kind) for i, kind in enumerate(types)]
        return name, tree.fixed(f"{name} AS {materialized}(", inner, ")"), columns

    def body(self, scope, depth, types, names, ctes):
        if depth > 1 and self.chance(0.12) and not any(kind in ("json",) for kind in types):
            operator = self.draw.choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"])
            left = self.body(scope, depth - 1, types, names, ctes)
            right = self.body(scope, depth - 1, types, names, ctes)
            sides = [tree.fixed("(", side, ")") if side.kind == "setop" else side for side in (left, right)]
            return tree.Node("setop", (sides[0], f" {operator} ", sides[1]), tag=operator)
        return self.select(scope, depth, types, names, ctes)

    def select(self, scope, depth, types, names, ctes, where=None):
        inner, source = self.sources(scope, depth, ctes)
        conjuncts = [self.predicate(inner, depth) for _ in range(self.draw.choice([0, 0, 0, 1, 1, 2]))]
        conjuncts += where(inner) if where else []
        clauses = [tree.option(" FROM ", source)]
        if conjuncts:
            clauses.append(tree.option(" WHERE ", tree.listed(conjuncts, " AND ")))
        grouped = self.chance(0.3)
        scope_items = inner
        if grouped:
            scope_items, group = self.grouping(inner)
            clauses += group
            if self.chance(0.25):
                clauses.append(tree.option(" HAVING ", self.maker.expression("bool", scope_items, 2), tag="HAVING"))
        scope_items.windows = self.chance(0.35)
        items = []
        for number, kind in enumerate(types):
            made = None
            if grouped and kind == "float8" and self.chance(0.4):
                made = self.maker.aggregate(kind, inner, 2, outermost=True)
            made = made or self.maker.expression(kind, scope_items, min(depth, 2) + self.draw.choice([0, 0, 1]))
            items.append(tree.fixed(made, f" AS c{number + 1}" if names else ""))
        distinct = tree.option("DISTINCT ", tag="DISTINCT") if self.chance(0.1) else tree.EMPTY
        self.last_scope = scope_items
        return tree.Node("select", ("SELECT ", distinct, tree.listed(items), *clauses))

    def predicate(self, scope, depth):
        if depth > 1 and self.chance(0.18):
            found = self.membership(scope, depth)
            if found:
                return found
        return self.maker.expression("bool", scope, self.draw.choice([1, 1, 2, 3]))

    # ------------------------------------------------------------ grouping

    def grouping(self, inner):
        plain = Scope(inner.columns, inner.outer, inner.unique)
        keys = []
        for _ in range(self.draw.choice([0, 1, 1, 2, 3])):
            kept, self.maker.parameters = self.maker.parameters, 0
            key = (
                self.maker.leaf(self.draw.choice(HASHED), plain)
                if self.chance(0.7)
                else self.maker.call(self.draw.choice(HASHED), plain, 1)
            )
            self.maker.parameters = kept
            if key is not None and any(node.kind == "column" and node in inner.columns for node in key.walk()):
                keys.append(key)
        scope = Scope(list(keys), inner.outer, list(keys) or None, aggregates=plain, grouped=True)
        if not keys:
            return scope, [tree.option(" GROUP BY ()", tag="GROUP BY ()")] if self.chance(0.1) else []
        shape = self.draw.choice(["plain", "plain", "plain", "rollup", "cube", "sets"])
        if shape == "plain":
            return scope, [tree.option(" GROUP BY ", tree.listed(keys))]
        scope.unique = None
        scope.columns.append(tree.expr("int4", "grouping()", "grouping(", keys[0], ")"))
        if shape == "sets":
            sets = [
                tree.fixed("(", tree.fixed(*spaced([key for key in keys if self.chance(0.6)])), ")")
                for _ in range(self.draw.choice([1, 2, 3]))
            ]
            sets.append(tree.fixed("(", tree.fixed(*spaced(keys)), ")"))
            return scope, [tree.option(" GROUP BY GROUPING SETS (", tree.listed(sets), ")", tag="GROUPING SETS")]
        return scope, [tree.option(f" GROUP BY {shape.upper()} (", tree.listed(keys), ")", tag=shape.upper())]

    # ------------------------------------------------------------ subqueries

    def correlation(self, scope):
        """Conjuncts that tie a subquery to the query around it."""

        def conjuncts(inner):
            if not scope.columns or self.chance(0.25):
                return []
            made = self.equality(inner.columns, scope.columns)
            return [made] if made else []

        return conjuncts

    def inner(self, scope, depth, types):
        around = Scope([], scope.around())
        return self.select(around, depth - 1, types, False, (), where=self.correlation(scope))

    def subquery(self, type_, scope, depth):
        """A subquery as an expression."""
        if self.depth > 1 or scope.grouped:
            return None
        self.depth += 1
        try:
            if type_ == "bool":
                return self.membership(scope, depth)
            if type_.endswith("[]"):
                return self.array(type_, scope, depth)
            return self.scalar(type_, scope, depth)
        finally:
            self.depth -= 1

    def scalar(self, type_, scope, depth):
        if self.chance(0.2):
            return self.by_key(type_, scope, depth)
        around = Scope([], scope.around())
        inner, source = self.sources(around, depth - 1, ())
        conjuncts = self.correlation(scope)(inner)
        if self.chance(0.3):
            conjuncts.append(self.predicate(inner, 1))
        where = tree.option(" WHERE ", tree.listed(conjuncts, " AND ")) if conjuncts else tree.EMPTY
        plain = Scope(inner.columns, inner.outer, inner.unique)
        if inner.unique and self.chance(0.4):
            item = self.maker.expression(type_, plain, 2)
            order = tree.frozen(
                " ORDER BY ",
                *spaced(inner.unique),
                self.draw.choice([" LIMIT 1", " LIMIT 1", " DESC LIMIT 1", " OFFSET 1 LIMIT 1"]),
            )
            return tree.expr(
                type_, "scalar subquery LIMIT 1", "(SELECT ", item, tree.option(" FROM ", source), where, order, ")"
            )
        item = self.maker.aggregate(type_, plain, 2)
        if item is None:
            return None
        return tree.expr(
            type_, "scalar subquery", "(SELECT ", tree.fixed(item), tree.option(" FROM ", source), where, ")"
        )

    def row(self, scope, depth):
        """A subquery with one row of two columns."""
        inner, source = self.sources(Scope([], scope.around()), depth - 1, ())
        plain = Scope(inner.columns, inner.outer, inner.unique)
        items = [self.maker.aggregate(type_, plain, 1) for type_ in ("int4", "text")]
        if None in items:
            return None
        conjuncts = self.correlation(scope)(inner)
        where = tree.option(" WHERE ", tree.listed(conjuncts, " AND ")) if conjuncts else tree.EMPTY
        return tree.fixed("(SELECT ", *spaced(items), tree.option(" FROM ", source), where, ")")

    def by_key(self, type_, scope, depth):
        """A scalar subquery that finds a row of a table by its unique key."""
        table = self.tables[self.draw.choice(("t", "s", "w", "orders", "customer"))]
        alias = self.alias()
        columns = [tree.column(f"{alias}.{name}", kind.split("(")[0]) for name, kind, _ in table.columns]
        key = next(node for node in columns if node.parts[0].endswith(f".{table.unique[0]}"))
        others = [node for node in scope.columns if node.type in ("int2", "int4", "int8")]
        if not others:
            return None
        item = self.maker.expression(type_, Scope(columns, scope.around()), 2)
        more = [self.maker.expression("bool", Scope(columns, scope.around()), 1)] if self.chance(0.3) else []
        where = tree.listed([tree.frozen(key, " = ", self.draw.choice(others)), *more], " AND ")
        return tree.expr(
            type_, "scalar subquery by key", "(SELECT ", item, f" FROM {table.name} {alias} WHERE ", where, ")"
        )

    def array(self, type_, scope, depth):
        around = Scope([], scope.around())
        inner, source = self.sources(around, depth - 1, ())
        if not inner.unique:
            return None
        conjuncts = self.correlation(scope)(inner)
        where = tree.option(" WHERE ", tree.listed(conjuncts, " AND ")) if conjuncts else tree.EMPTY
        item = self.maker.expression(type_[:-2], Scope(inner.columns, inner.outer), 1)
        return tree.expr(
            type_,
            "ARRAY(subquery)",
            "ARRAY(SELECT ",
            item,
            " FROM ",
            source,
            where,
            tree.frozen(" ORDER BY ", *spaced(inner.unique)),
            ")",
        )

    def membership(self, scope, depth):
        """EXISTS, IN, ANY, ALL, and rows compared with a subquery."""
        kind = self.draw.choice(["EXISTS", "NOT EXISTS", "IN", "NOT IN", "ANY", "ALL", "row IN", "row ="])
        if kind == "row =":
            left = [self.maker.expression(type_, scope, 1) for type_ in ("int4", "text")]
            inner = self.row(scope, depth)
            return tree.expr("bool", "row = subquery", "((", *spaced(left), ") = ", inner, ")") if inner else None
        if kind.endswith("EXISTS"):
            inner = self.inner(scope, depth, [self.kind()])
            return tree.expr("bool", kind, f"{kind} (", inner, ")")
        if kind == "row IN":
            types = ["int4", "text"]
            left = [self.maker.expression(type_, scope, 1) for type_ in types]
            return tree.expr(
                "bool", "row IN subquery", "(", *spaced(left), ") IN (", self.inner(scope, depth, types), ")"
            )
        type_ = self.draw.choice(HASHED)
        other = self.draw.choice(
            [type_, type_, {"int4": "int8", "int8": "numeric", "numeric": "float8"}.get(type_, type_)]
        )
        left, inner = self.maker.expression(type_, scope, 1), self.inner(scope, depth, [other])
        if kind in ("ANY", "ALL"):
            operator = self.draw.choice(["=", "<>", "<", ">=", ">"])
            return tree.expr("bool", f"{operator} {kind} subquery", "(", left, f" {operator} {kind} (", inner, "))")
        return tree.expr("bool", f"{kind} subquery", "(", left, f" {kind} (", inner, "))")
