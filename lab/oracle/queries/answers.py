#!/usr/bin/env python3
"""Fills in PostgreSQL's answers: FILE of statements (setup lines run first) -> the same with answers."""
import sys, psycopg2
def text(v):
    return 'NULL' if v is None else v
conn = psycopg2.connect(host='/tmp/pgoracle', port=5999, user='postgres', dbname='queries')
conn.autocommit = True
cur = conn.cursor()
import psycopg2.extensions as e
# Values as text, as the server sends them.
def raw(value, cursor): return value
for oid in list(e.string_types):
    pass
T = e.new_type(tuple(e.string_types.keys()), 'RAW', raw)
e.register_type(T, conn)
path = sys.argv[1]
out = []
cur.execute("set timezone='UTC'")
cur.execute('drop schema if exists q_t cascade'); cur.execute('create schema q_t'); cur.execute('set search_path=q_t')
for line in open(path):
    line = line.rstrip('\n')
    if not line or line.startswith('#'):
        out.append(line); continue
    parts = line.split('\t')
    if parts[0] == 'setup':
        cur.execute(parts[1]); out.append(line); continue
    try:
        cur.execute(parts[0])
        rows = cur.fetchall()
        out.append(parts[0] + '\t' + '; '.join(' | '.join(text(v) for v in r) for r in rows))
    except psycopg2.Error as x:
        out.append(parts[0] + '\terror %s %s' % (x.pgcode, x.diag.message_primary))
cur.execute('drop schema q_t cascade')
open(path, 'w').write('\n'.join(out) + '\n')
