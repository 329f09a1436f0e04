#!/usr/bin/env python3
"""Tables unlike TPC-H's: many files, many tiny column chunks, nested columns, skewed text.

    odd_data.py FOLDER [many] [wide] [small] [nested] [hits] [--files 5000] [--rows 1000000]

many    5,000 files of 200 rows in folders day=YYYY-MM-DD, ten a day
wide    300 columns of floats in 2,000 row groups of 50 rows: 600,000 column chunks
small   20 tables of 1,000 rows, a file each
nested  a struct, a list of structs, a map, and a BINARY column of text
hits    ClickBench's schema (names in lower case, times and dates as such), with its kind of skew: few counters and
        regions have most rows, most phrases are empty. Columns that no query of clickbench.sql names are constant.

FOLDER/NAME is written once: delete it to make it once more. The same arguments give the same
values.
"""

import argparse
import datetime
import os
import re
import shutil

import duckdb
import pyarrow
import pyarrow.parquet

KINDS = ("many", "wide", "small", "nested", "hits")


def many(folder, args):
    first = datetime.date(2020, 1, 1)
    for at in range(args.files):
        day = os.path.join(folder, f"day={first + datetime.timedelta(days=at // 10)}")
        os.makedirs(day, exist_ok=True)
        keys = range(at * 200, at * 200 + 200)
        table = pyarrow.table({
            "id": pyarrow.array(keys, pyarrow.int64()),
            "customer": pyarrow.array([key * 7919 % 10_007 for key in keys], pyarrow.int32()),
            "amount": pyarrow.array([key % 1000 / 4 for key in keys], pyarrow.float64()),
            "quantity": pyarrow.array([key % 50 for key in keys], pyarrow.int32()),
            "kind": pyarrow.array([("new", "paid", "sent")[key % 3] for key in keys]),
            "note": pyarrow.array([f"note {key % 977}" for key in keys]),
        })
        pyarrow.parquet.write_table(table, os.path.join(day, f"part-{at % 10}.parquet"))


def wide(folder, _args):
    os.makedirs(folder)
    groups, rows, columns = 2000, 50, 300
    schema = pyarrow.schema([("id", pyarrow.int64())] + [(f"c{at}", pyarrow.float64()) for at in range(columns - 1)])
    with pyarrow.parquet.ParquetWriter(os.path.join(folder, "wide.parquet"), schema, use_dictionary=False) as out:
        for group in range(groups):
            keys = range(group * rows, group * rows + rows)
            arrays = [pyarrow.array(keys, pyarrow.int64())]
            arrays += [pyarrow.array([(key * (at + 3)) % 1000 / 8 for key in keys]) for at in range(columns - 1)]
            out.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))


def small(folder, _args):
    os.makedirs(folder)
    for at in range(20):
        table = pyarrow.table({"id": range(1000), "name": [f"name {at} {key}" for key in range(1000)]})
        pyarrow.parquet.write_table(table, os.path.join(folder, f"small{at}.parquet"))


def nested(folder, _args):
    os.makedirs(folder)
    point = pyarrow.struct([("x", pyarrow.int32()), ("label", pyarrow.string())])
    rows = range(2000)
    table = pyarrow.table({
        "id": pyarrow.array(rows, pyarrow.int64()),
        "point": pyarrow.array([None if key % 7 == 6 else {"x": key, "label": f"a, \"{key}\""} for key in rows], point),
        "points": pyarrow.array([[{"x": at, "label": f"p{at}"} for at in range(key % 4)] for key in rows],
                                pyarrow.list_(point)),
        "tags": pyarrow.array([[(f"k{at}", at) for at in range(key % 3)] for key in rows],
                              pyarrow.map_(pyarrow.string(), pyarrow.int32())),
        "raw": pyarrow.array([f"text {key % 10}".encode() for key in rows], pyarrow.binary()),
    })
    pyarrow.parquet.write_table(table, os.path.join(folder, "nested.parquet"), store_schema=False)


# How each varying column of ClickBench's table is made from the row `i`; h(n) is a hash of the row
# and n, u(n) is between 0 and 1.
VARYING = {
    "watchid": "h(1)",
    "title": "case when u(2) < 0.15 then '' else 'title ' || (power(u(3), 4) * 200000)::int || repeat(' word', (h(4) % 8)::int) end",
    "eventtime": "timestamp '2013-07-01' + interval 1 second * (i * 2678400 // {rows})",
    "eventdate": "(timestamp '2013-07-01' + interval 1 second * (i * 2678400 // {rows}))::date",
    "counterid": "(case when u(5) < 0.3 then 62 else 1 + power(u(6), 6) * 6500 end)::int",
    "clientip": "(power(u(7), 3) * 2000000000)::int",
    "regionid": "(1 + power(u(8), 8) * 9000)::int",
    "userid": "(power(u(9), 3) * 0.2 * {rows})::bigint * 7919 + 435090932899640449",
    "os": "(power(u(10), 3) * 90)::smallint",
    "url": "'http://site' || (power(u(11), 6) * 5000)::int || '.example/' || case when u(12) < 0.02 then 'google/' else '' end"
           " || (power(u(13), 3) * 300000)::int || '.html?' || (h(14) % 50)",
    "referer": "case when u(15) < 0.2 then '' else 'http://' || case when u(16) < 0.3 then 'www.' else '' end || 'from'"
               " || (power(u(17), 6) * 8000)::int || '.example/path/' || (power(u(18), 3) * 100000)::int end",
    "isrefresh": "(u(19) < 0.1)::smallint",
    "resolutionwidth": "(array[1024, 1280, 1366, 1440, 1600, 1920, 0])[1 + (h(20) % 7)::int]::smallint",
    "mobilephone": "(case when u(21) < 0.9 then 0 else 1 + power(u(22), 3) * 80 end)::smallint",
    "mobilephonemodel": "case when u(21) < 0.9 then '' else 'model ' || (power(u(22), 3) * 160)::int end",
    "traficsourceid": "((h(23) % 12)::int - 1)::smallint",
    "searchengineid": "(case when u(24) < 0.85 then 0 else 1 + power(u(25), 4) * 90 end)::smallint",
    "searchphrase": "case when u(24) < 0.85 then '' else 'search ' || (power(u(26), 3) * {rows} / 10)::int end",
    "advengineid": "(case when u(27) < 0.99 then 0 else 1 + h(28) % 60 end)::smallint",
    "windowclientwidth": "(h(29) % 2000)::smallint",
    "windowclientheight": "(h(30) % 1200)::smallint",
    "islink": "(u(31) < 0.2)::smallint",
    "isdownload": "(u(32) < 0.02)::smallint",
    "dontcounthits": "(u(33) < 0.1)::smallint",
    "refererhash": "case when u(34) < 0.2 then 3594120000172545465 else h(17) end",
    "urlhash": "case when u(35) < 0.2 then 2868770270353813622 else h(13) end",
}
SCHEMA = """watchid bigint, javaenable smallint, title text, goodevent smallint, eventtime timestamp, eventdate date,
counterid int, clientip int, regionid int, userid bigint, counterclass smallint, os smallint, useragent smallint, url text,
referer text, isrefresh smallint, referercategoryid smallint, refererregionid int, urlcategoryid smallint, urlregionid int,
resolutionwidth smallint, resolutionheight smallint, resolutiondepth smallint, flashmajor smallint, flashminor smallint,
flashminor2 text, netmajor smallint, netminor smallint, useragentmajor smallint, useragentminor text, cookieenable smallint,
javascriptenable smallint, ismobile smallint, mobilephone smallint, mobilephonemodel text, params text, ipnetworkid int,
traficsourceid smallint, searchengineid smallint, searchphrase text, advengineid smallint, isartifical smallint,
windowclientwidth smallint, windowclientheight smallint, clienttimezone smallint, clienteventtime timestamp,
silverlightversion1 smallint, silverlightversion2 smallint, silverlightversion3 int, silverlightversion4 smallint,
pagecharset text, codeversion int, islink smallint, isdownload smallint, isnotbounce smallint, funiqid bigint,
originalurl text, hid int, isoldcounter smallint, isevent smallint, isparameter smallint, dontcounthits smallint,
withhash smallint, hitcolor text, localeventtime timestamp, age smallint, sex smallint, income smallint, interests smallint,
robotness smallint, remoteip int, windowname int, openername int, historylength smallint, browserlanguage text,
browsercountry text, socialnetwork text, socialaction text, httperror smallint, sendtiming int, dnstiming int,
connecttiming int, responsestarttiming int, responseendtiming int, fetchtiming int, socialsourcenetworkid smallint,
socialsourcepage text, paramprice bigint, paramorderid text, paramcurrency text, paramcurrencyid smallint,
openstatservicename text, openstatcampaignid text, openstatadid text, openstatsourceid text, utmsource text, utmmedium text,
utmcampaign text, utmcontent text, utmterm text, fromtag text, hasgclid smallint, refererhash bigint, urlhash bigint,
clid int"""
CONSTANT = {"text": "''", "timestamp": "timestamp '2013-07-15'", "date": "date '2013-07-15'"}


def hits(folder, args):
    os.makedirs(folder)
    base = duckdb.connect()
    base.execute("set preserve_insertion_order = true; set threads = 2")
    base.execute("create macro h(i, n) as (hash(i * 64 + n) >> 1)::bigint")
    columns = []
    for column in SCHEMA.split(","):
        name, kind = column.split()
        value = VARYING.get(name, CONSTANT.get(kind, "0")).replace("{rows}", str(args.rows))
        value = re.sub(r"\b([uh])\(", r"\1(i, ", value)
        columns.append(f"({value})::{kind} as {name}")
    base.execute("create macro u(i, n) as h(i, n) / 9223372036854775808.0")
    base.execute(f"copy (select {', '.join(columns)} from range({args.rows}) as rows(i)) "
                 f"to '{folder}/hits.parquet' (format parquet, row_group_size 200000)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], default=[])
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    args = parser.parse_args()
    for kind in args.kinds or KINDS:
        folder = os.path.join(args.folder, kind)
        if os.path.exists(folder):
            continue
        # An unfinished table never has the final name.
        making = f"{folder}.making"
        shutil.rmtree(making, ignore_errors=True)
        globals()[kind](making, args)
        os.rename(making, folder)
        print(folder)


if __name__ == "__main__":
    main()
