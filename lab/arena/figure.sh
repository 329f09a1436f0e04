#!/usr/bin/env bash
# One figure of the comparison with other engines: each engine in turn, in one arena.
#
#   figure.sh BANDWIDTH MEMORY [STREAMS [DELAY]]     such as: figure.sh 200MB/s 2.5GB
#
# For each engine: every kind of query by itself in an arena of its own (cold, so that no query
# profits from the preceding one), then the workload, then the comparison with the base, which is
# the first of $ENGINES. Results are kept in $OUT: w.json, <engine>.json, <engine>.arena.json,
# alone/.
#
#   SCALE=40  SEED=1  MIX=FS-T  ENGINES="duckdb datafusion coscan"
#   COSCAN=target/release/coscan  COSCAN_SETTINGS="coscan.policy=attach"  PORT=15432
#   PEER_MEMORY=      the engines' own limit, as a careful user would set it (such as 1.2GB)
#   DISTINCT=         yes: no two queries have a date in common
#   ALONE=yes         no: omit the standalone times, and with them the normalised latency
#   LIMIT_S=1800      a run is killed after this many seconds
set -uo pipefail

bandwidth="${1:?usage: figure.sh BANDWIDTH MEMORY [STREAMS [DELAY]]}"
memory="${2:?usage: figure.sh BANDWIDTH MEMORY [STREAMS [DELAY]]}"
streams="${3:-16}"
delay="${4:-3}"

here="$(cd "$(dirname "$0")" && pwd)"
cache="$HOME/.cache/coscan"
scale="${SCALE:-40}" seed="${SEED:-1}" mix="${MIX:-FS-T}"
engines="${ENGINES:-duckdb datafusion coscan}"
coscan="${COSCAN:-$here/../../target/release/coscan}"
port="${PORT:-15432}"
python="${COSCAN_VENV:-$cache/venv}/bin/python"
data="${COSCAN_DATA:-$cache/data}/lineitem-sf$scale.parquet"
out="${OUT:-$cache/results/sf$scale-$mix-${bandwidth//\//p}-$memory-$streams-seed$seed${DISTINCT:+-distinct}${PEER_MEMORY:+-own-$PEER_MEMORY}}"

[ -x "$python" ] || { echo "figure.sh: no $python: run lab/arena/setup.sh" >&2; exit 2; }
[ -f "$data" ] || { echo "figure.sh: no $data: run lab/arena/data.sh $scale" >&2; exit 2; }
[ -x "$coscan" ] || { echo "figure.sh: no $coscan: run cargo build --release" >&2; exit 2; }
mkdir -p "$out/alone"
"$coscan" bench workload --scale "$scale" --mix "$mix" --seed "$seed" --streams "$streams" --delay "${delay}s" \
    ${DISTINCT:+--distinct} --out "$out/w.json" || exit 2

arena=("$here/arena.py" --data "$data" --bandwidth "$bandwidth" --memory "$memory" --timeout "${LIMIT_S:-1800}")

# in_arena ENGINE RESULT PEERS-ARGUMENTS...: RESULT.json and RESULT.arena.json
in_arena() {
    local engine="$1" result="$2" settings=() setting
    shift 2
    rm -f "$result.json" "$result.arena.json"
    case "$engine" in
    coscan)
        for setting in ${COSCAN_SETTINGS:-}; do settings+=(--set "$setting"); done
        "${arena[@]}" --label "$engine" --json "$result.arena.json" --port "$port" \
            --client "$(printf '%q ' "$python" "$here/peers.py" pg --workload "$out/w.json" --json "$result.json" \
                --data "$data" --dsn "host=127.0.0.1 port=$port user=coscan dbname=coscan" \
                "${settings[@]}" "$@")" \
            -- "$coscan" serve -t "lineitem=$data" --listen "127.0.0.1:$port"
        ;;
    *)
        "${arena[@]}" --label "$engine" --json "$result.arena.json" -- \
            "$python" "$here/peers.py" "$engine" --workload "$out/w.json" --json "$result.json" \
            --data "$data" ${PEER_MEMORY:+--memory-limit "$PEER_MEMORY"} "$@"
        ;;
    esac
}

compared=()
for engine in $engines; do
    alone=()
    if [ "${ALONE:-yes}" = yes ]; then
        for name in $("$here/workload.py" --names "$out/w.json"); do
            result="$out/alone/$engine-$name"
            in_arena "$engine" "$result" --standalone-only --names "$name"
            [ -f "$result.json" ] && alone+=(--standalone-from "$result.json")
        done
    fi
    in_arena "$engine" "$out/$engine" "${alone[@]}" || echo "figure.sh: $engine ended with $?" >&2
    compared+=("$out/$engine.json")
done
[ ${#compared[@]} -gt 0 ] && "$here/compare.py" "${compared[@]}" --json "$out/figures.json"
