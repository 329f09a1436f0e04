"""Does a rewrite that must not change a result change it? Runs on Coscan alone.

TLP (ternary logic partitioning): the rows of a query are those for which a predicate is true,
false and unknown, combined. NoREC: the number of rows that WHERE keeps is the number of rows for
which the predicate is true in the select list. The rewrites find faults of filters, pruning and
sharing that the oracle misses if both systems have them, and they need no PostgreSQL.
"""

import dataclasses

import asking
import cells
import tree


@dataclasses.dataclass
class Rewrite:
    name: str
    root: tree.Node  # the query whose WHERE is partitioned
    predicate: tree.Node

    def parts(self):
        """The statement, and the statements whose rows combined are its rows."""
        select = self.root.parts[1]
        if self.name == "TLP":
            forms = ([self.predicate], ["(NOT ", self.predicate, ")"], ["(", self.predicate, ") IS NULL"])
            return tree.text(select), [tree.text(filtered(select, form)) for form in forms]
        source = next(
            (part for part in select.nodes() if part.kind == "option" and part.parts[:1] == (" FROM ",)), tree.EMPTY
        )
        whole = tree.Node(
            "select", ("SELECT ", tree.listed([tree.fixed("CASE WHEN ", self.predicate, " THEN 1 ELSE 0 END")]), source)
        )
        ones = tree.Node("select", ("SELECT ", tree.listed([tree.fixed("1")]), source))
        return tree.text(whole), [tree.text(filtered(ones, [self.predicate]))]

    def again(self, root):
        return Rewrite(self.name, root, self.predicate)

    def shown(self):
        whole, parts = self.parts()
        return f"{whole}; -- against\n" + ";\n".join(parts)

    def difference(self, ask):
        """The difference, or None; `ask` takes an asking.Sent."""
        try:
            whole, parts = self.parts()
        except StopIteration:
            return None
        answers = [ask(asking.Sent(text, None, False, False)) for text in (whole, *parts)]
        if any(isinstance(answer, Exception) or answer.failed for answer in answers):
            return None
        rows = [cells.counted(cells.table(answer)) for answer in answers]
        if self.name == "TLP":
            want, have = rows[0], sum(rows[1:], rows[1] - rows[1])
        else:
            want, have = sum(count for row, count in rows[0].items() if row[0] == cells.key(1)), sum(rows[1].values())
        if want == have:
            return None
        count = lambda found: found if isinstance(found, int) else sum(found.values())
        return asking.Difference(
            "rows", f"{count(have)} rows instead of {count(want)}", f"{count(want)} rows", f"{count(have)} rows"
        )


def filtered(select, form):
    """The select with another WHERE."""
    return select.with_parts((*select.parts, " WHERE ", *form))


def rewrites(root, draw):
    """The rewrites of a statement: plain selects only, without WHERE, grouping, DISTINCT or windows."""
    select = root.parts[1]
    if select.kind != "select" or root.parts[0] is not tree.EMPTY:
        return
    tags = tree.tags(select)
    if any("OVER" in tag or tag in ("DISTINCT", "HAVING") for tag in tags) or any(
        node.kind == "literal" and node.form not in ("plain", "cast") for node in select.walk()
    ):
        return
    options = [part for part in select.nodes() if part.kind == "option"]
    where = next((part for part in options if part.parts[0] == " WHERE "), None)
    if where is None or any("GROUP BY" in str(part.parts[0]) for part in options) or aggregates(select):
        return
    predicate = draw.choice(where.parts[1].parts)
    plain = root.with_parts(
        (tree.EMPTY, select.with_parts([part for part in select.parts if part is not where])), tail=None
    )
    yield Rewrite("TLP", plain, predicate)
    yield Rewrite("NoREC", plain, predicate)


def aggregates(select):
    from generator.expressions import SIGNATURES

    names = {
        signature.tag
        for families in SIGNATURES["aggregate"].values()
        for found in families.values()
        for signature in found
    }
    names |= {"FILTER", "DISTINCT in aggregate"}
    special = ("string_agg", "array_agg", "jsonb_agg", "percentile", "mode()")
    return any(tag in names or tag.startswith(special) for tag in tree.tags(select.nodes()[1]))
