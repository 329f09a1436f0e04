#!/usr/bin/env bash
# One figure of whole TPC-H queries by concurrent clients: DuckDB, DataFusion and Coscan in turn, in one arena.
#
#   mix.sh BANDWIDTH MEMORY      such as: mix.sh 200MB/s 4GB, or: mix.sh none 20GB
#
# Results are kept in $OUT: w.json, <engine>.json, <engine>.arena.json, figures.json.
#
#   SCALE=10  SEED=1  CLIENTS=12  QUERIES=4  SETS=0 (sets of parameters per query; 0: drawn for each)
#   ENGINES="duckdb datafusion coscan"  COSCAN=target/release/coscan  COSCAN_SETTINGS="coscan.state_cache=0"
#   WARM_UP=yes   the workload runs once before the run that counts, for each engine (processor time is of both)
#   PEER_MEMORY=  as in figure.sh  PORT=15432  LIMIT_S=1800
set -uo pipefail

bandwidth="${1:?usage: mix.sh BANDWIDTH MEMORY}"
memory="${2:?usage: mix.sh BANDWIDTH MEMORY}"
here="$(cd "$(dirname "$0")" && pwd)"
cache="$HOME/.cache/coscan"
scale="${SCALE:-10}" seed="${SEED:-1}" sets="${SETS:-0}" port="${PORT:-15432}"
coscan="${COSCAN:-$here/../../target/release/coscan}"
python="${COSCAN_VENV:-$cache/venv}/bin/python"
data="${COSCAN_DATA:-$cache/data}/tpch-sf$scale"
out="${OUT:-$cache/results/mix-sf$scale-${bandwidth//\//p}-$memory-$sets-seed$seed}"

[ -x "$python" ] || { echo "mix.sh: no $python: run lab/arena/setup.sh" >&2; exit 2; }
[ -d "$data" ] || { echo "mix.sh: no $data: run lab/arena/data.sh $scale tpch" >&2; exit 2; }
[ -x "$coscan" ] || { echo "mix.sh: no $coscan: run cargo build --release" >&2; exit 2; }
mkdir -p "$out"
"$coscan" bench mix --clients "${CLIENTS:-12}" --queries "${QUERIES:-4}" --sets "$sets" --seed "$seed" \
    --out "$out/w.json" || exit 2

arena=("$here/arena.py" --data "$data/lineitem.parquet" --memory "$memory" --timeout "${LIMIT_S:-1800}")
[ "$bandwidth" = none ] || arena+=(--bandwidth "$bandwidth")
compared=()
for engine in ${ENGINES:-duckdb datafusion coscan}; do
    result="$out/$engine"
    rm -f "$result.json" "$result.arena.json"
    run=(--workload "$out/w.json" --json "$result.json" ${WARM_UP:+--warm-up})
    if [ "$engine" = coscan ]; then
        for setting in ${COSCAN_SETTINGS:-}; do run+=(--set "$setting"); done
        tables=()
        for file in "$data"/*.parquet; do tables+=(-t "$(basename "$file" .parquet)=$file"); done
        "${arena[@]}" --label "$engine" --json "$result.arena.json" --port "$port" \
            --client "$(printf '%q ' "$python" "$here/peers.py" pg "${run[@]}" \
                --dsn "host=127.0.0.1 port=$port user=coscan dbname=coscan")" \
            -- "$coscan" serve "${tables[@]}" --listen "127.0.0.1:$port"
    else
        "${arena[@]}" --label "$engine" --json "$result.arena.json" -- \
            "$python" "$here/peers.py" "$engine" "${run[@]}" --data "$data" \
            ${PEER_MEMORY:+--memory-limit "$PEER_MEMORY"}
    fi || echo "mix.sh: $engine ended with $?" >&2
    compared+=("$result.json")
done
"$here/compare.py" "${compared[@]}" --json "$out/figures.json"
