#!/usr/bin/env bash
# The peers' software: one virtual environment with every version pinned.
#
# Why pinned: a ratio between two engines means something only while both stay the same. If you
# raise a version here, repeat all measurements.
# Not here: the data (data.sh), Coscan itself (cargo).
set -euo pipefail

venv="${COSCAN_VENV:-$HOME/.cache/coscan/venv}"
pins=(
    duckdb==2.0.0
    datafusion==55.0.0
    "psycopg[binary]==3.3.9"
    tpchgen-cli==4.0.0
    pyarrow==26.0.1
)

[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check "${pins[@]}"
"$venv/bin/python" -m pip list --disable-pip-version-check | grep -Ei '^(duckdb|datafusion|psycopg|tpchgen|pyarrow)'
