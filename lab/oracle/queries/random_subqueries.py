#!/usr/bin/env python3
"""Random correlated subqueries with PostgreSQL's answers: queries-random.py SEED COUNT OUT"""
import random, sys, psycopg2
import psycopg2.extensions as e
seed, count, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
R = random.Random(seed)
conn = psycopg2.connect(host='/tmp/pgoracle', port=5999, user='postgres', dbname='queries')
conn.autocommit = True
e.register_type(e.new_type(tuple(e.string_types.keys()), 'RAW', lambda v, c: v), conn)
cur = conn.cursor()
cur.execute("set statement_timeout='5s'; set timezone='UTC'")
schema = 'q_r%d' % seed
cur.execute('drop schema if exists %s cascade; create schema %s; set search_path=%s' % (schema, schema, schema))
def val(k):
    return 'NULL' if R.random() < .2 else str(R.randint(0, k))
tables = {}
setup = []
for name, rows in (('ta', 7), ('tb', 6), ('tc', 5), ('td', 0)):
    body = ','.join('(%s,%s,%s)' % (val(4), val(3), val(9)) for _ in range(rows)) or '(1,1,1)'
    where = '' if rows else ' where x > 5'
    setup.append('create table %s as select * from (values (NULL::int,NULL::int,NULL::int),%s) t(x,y,z) where %s%s'
        % (name, body, 'true' if R.random() < .5 else 'x is not null', ' and x > 5' if not rows else ''))
for s in setup: cur.execute(s)
TABLES = ['ta', 'tb', 'tc', 'td']
n = [0]
def alias():
    n[0] += 1
    return 'q%d' % n[0]
def col(scope):
    return '%s.%s' % (R.choice(scope), R.choice('xyz'))
def atom(inner, outer):
    if R.random() < .12: return str(R.randint(0, 4))
    if outer and R.random() < .35: return col(outer)
    return col(inner)
def expr(inner, outer, d=0):
    r = R.random()
    if r < .7 or d > 1: return atom(inner, outer)
    if r < .85: return '(%s + %s)' % (expr(inner, outer, d + 1), expr(inner, outer, d + 1))
    if r < .93: return 'coalesce(%s, %s)' % (atom(inner, outer), R.randint(0, 3))
    return 'case when %s then %s else %s end' % (cmp(inner, outer), atom(inner, outer), atom(inner, outer))
def cmp(inner, outer):
    op = R.choice(['=', '=', '=', '<', '<=', '>', '<>'])
    return '%s %s %s' % (expr(inner, outer, 1), op, expr(inner, outer, 1))
def correlated(inner, outer):
    if outer and R.random() < .6: return '%s = %s' % (col(inner), col(outer))
    if outer and R.random() < .6: return '%s %s %s' % (col(inner), R.choice(['<', '>', '<=', '<>']), col(outer))
    return cmp(inner, outer)
def pred(inner, outer, depth):
    r = R.random()
    if r < .55: return correlated(inner, outer)
    if r < .65: return '(%s or %s)' % (pred(inner, outer, depth), pred(inner, outer, depth))
    if r < .7: return 'not (%s)' % pred(inner, outer, depth)
    if r < .75: return '%s is %snull' % (atom(inner, outer), R.choice(['', 'not ']))
    if depth <= 0 or R.random() < .4: return correlated(inner, outer)
    return subpred(inner + outer, inner, depth - 1)
def where(inner, outer, depth, p=.8):
    if R.random() > p: return ''
    return ' where ' + ' and '.join(pred(inner, outer, depth) for _ in range(R.choice([1, 1, 2])))
def frm(outer, depth, lateral=True):
    """FROM clause: text, aliases."""
    a = alias()
    r = R.random()
    if r < .1 and depth > 0:
        first, cols = '(%s) %s(x,y,z)' % (rows3(outer, depth - 1), a), [a]
    else:
        first, cols = '%s %s' % (R.choice(TABLES), a), [a]
    if R.random() < .25:
        b = alias()
        kind = R.choice(['join', 'left join', 'right join', 'full join', 'join', 'left join'])
        if R.random() < .2 and depth > 0 and kind in ('join', 'left join'):
            lat = 'lateral (%s) %s(x,y,z)' % (rows3([a] + outer, depth - 1), b)
        else:
            lat = '%s %s' % (R.choice(TABLES), b)
        on = '%s.%s = %s.%s' % (a, R.choice('xyz'), b, R.choice('xyz'))
        if kind != 'full join' and R.random() < .3: on += ' and ' + cmp([a, b], outer)
        return '%s %s %s on %s' % (first, kind, lat, on), [a, b]
    if R.random() < .1:
        b = alias()
        return '%s, %s %s' % (first, R.choice(TABLES), b), [a, b]
    return first, cols
def rows3(outer, depth):
    f, inner = frm(outer, depth)
    if R.random() < .15:
        return 'select %s, count(*), max(%s) from %s%s group by %s' % (((k := col(inner)),) + (col(inner), f, where(inner, outer, depth), k))
    if R.random() < .1:
        return 'select min(%s), count(*), sum(%s) from %s%s' % (expr(inner, outer), col(inner), f, where(inner, outer, depth))
    if R.random() < .1:
        return 'select %s, %s, row_number() over (partition by %s order by %s, %s) from %s%s' % (col(inner), col(inner), col(inner),
            ', '.join('%s.x, %s.y, %s.z' % (i, i, i) for i in inner), R.randint(1, 3) and inner[0] + '.x', f, where(inner, outer, depth))
    return 'select %s%s, %s, %s from %s%s' % (R.choice(['', '', 'distinct ']), expr(inner, outer), expr(inner, outer), col(inner), f, where(inner, outer, depth))
AGGS = ['count(*)', 'count(%s)', 'max(%s)', 'min(%s)', 'sum(%s)', 'count(distinct %s)', 'bool_or(%s > 1)', 'count(*) + max(%s)', 'coalesce(sum(%s), -1)']
def agg(inner, outer):
    g = R.choice(AGGS)
    while '%s' in g: g = g.replace('%s', expr(inner, outer if R.random() < .5 else []), 1)
    return g if 'bool' not in g else '(%s)::int' % g
def scalar(outer, depth):
    f, inner = frm(outer, depth)
    w = where(inner, outer, depth, .95)
    r = R.random()
    if r < .5:
        having = ' having %s' % R.choice(['count(*) > 1', 'max(%s) > 1' % col(inner), 'count(*) = %s' % (col(outer) if outer else '1')]) if R.random() < .15 else ''
        a = agg(inner, [])
        if outer and R.random() < .2: a = '(%s) + %s' % (a, col(outer))
        return '(select %s from %s%s%s)' % (a, f, w, having)
    order = ', '.join('%s.x, %s.y, %s.z' % (i, i, i) for i in inner)
    if r < .7:
        v = expr(inner, outer if R.random() < .3 else [])
        return '(select %s from %s%s order by %s%s limit %s%s)' % (v, f, w, R.choice(['', '%s desc, ' % col(inner)]), order,
            '1', R.choice(['', '', ' offset 1']))
    if r < .78: return '(select %s from %s%s)' % (expr(inner, outer), f, w)
    if r < .86:
        return '(select %s from (%s) s(x,y,z))' % (R.choice(['count(*)', 'max(x)', 'sum(y)', 'count(z)']), rows3(outer, depth))
    if r < .93:
        return '(select %s from (%s %s %s) s(x,y,z))' % (R.choice(['count(*)', 'max(x)', 'sum(y)']), rows3(outer, depth),
            R.choice(['union', 'union all', 'intersect', 'except']), rows3(outer, depth))
    return '(select c from (select %s c from %s%s) s where c %s %s)' % (agg(inner, []), f, w, R.choice(['=', '>', '<>']), R.randint(0, 2))
def subpred(outer, own, depth):
    r = R.random()
    f, inner = frm(outer, depth)
    w = where(inner, outer, depth)
    if r < .3:
        tail = R.choice(['', '', '', '', ' limit 1', ' offset 1'])
        sel = R.choice(['1', '1', '*', 'distinct %s' % col(inner), 'count(*)', 'max(%s)' % col(inner)])
        if sel == '*' : sel = inner[0] + '.x'
        if 'count' in sel or 'max' in sel: tail = R.choice(['', ' having count(*) > 1'])
        return '%sexists (select %s from %s%s%s)' % (R.choice(['', 'not ']), sel, f, w, tail)
    if r < .6:
        sub = 'select %s%s from %s%s' % (R.choice(['', '', 'distinct ']), expr(inner, outer if R.random() < .2 else []), f, w)
        if R.random() < .15: sub = 'select %s from %s%s' % (agg(inner, []), f, w)
        if R.random() < .1: sub = 'select max(%s) from %s%s group by %s' % (col(inner), f, w, col(inner))
        return '%s %sin (%s)' % (atom(own, []) if R.random() < .8 else expr(own, outer), R.choice(['', 'not ']), sub)
    if r < .8:
        sub = 'select %s from %s%s' % (expr(inner, []), f, w)
        return '%s %s %s (%s)' % (atom(own, []), R.choice(['=', '<', '<=', '>', '<>', '>=']), R.choice(['any', 'all', 'some']), sub)
    return '%s %s %s' % (atom(own, []), R.choice(['=', '<', '>', '<>', '<=']), scalar(outer, depth))
def statement():
    n[0] = 0
    f, inner = frm([], 1)
    items = [col(inner), col(inner)]
    r = R.random()
    w = ''
    if r < .45:
        w = ' where ' + subpred(inner, inner, 1)
        if R.random() < .3: w += R.choice([' and ', ' or ']) + (cmp(inner, []) if R.random() < .5 else subpred(inner, inner, 1))
    if r > .4:
        items.append(scalar(inner, 1) if R.random() < .6 else '(%s)' % subpred(inner, inner, 1))
        if R.random() < .15: items[-1] = 'case when %s then %s else 7 end' % (cmp(inner, []), items[-1] if items[-1].startswith('(select') else '(%s)::int' % items[-1])
    if R.random() < .1:
        k = inner[0] + '.x'
        having = ' having ' + subpred([inner[0]], [inner[0]], 1) if R.random() < .0 else ''
        return 'select %s, sum(%s) from %s%s group by %s%s order by 1, 2' % (k, scalar(inner, 1), f, w, k, having)
    return 'select %s from %s%s order by %s' % (', '.join(items), f, w, ', '.join(str(i + 1) for i in range(len(items))))
skipped = 0
with open(out, 'w') as o:
    for s in setup: o.write('setup\t%s\n' % s)
    done = 0
    while done < count:
        sql = statement()
        try:
            cur.execute(sql)
            rows = cur.fetchall()
            answer = '; '.join(' | '.join('NULL' if v is None else v for v in r) for r in rows)
        except psycopg2.Error as x:
            if x.pgcode != '21000': skipped += 1; sys.stderr.write('%s %s\n' % (x.diag.message_primary, sql)) if skipped < 5 else None; continue
            answer = 'error %s %s' % (x.pgcode, x.diag.message_primary)
        o.write('%s\t%s\n' % (sql, answer)); done += 1
cur.execute('drop schema %s cascade' % schema)
print('skipped', skipped)
