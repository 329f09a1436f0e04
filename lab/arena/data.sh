#!/usr/bin/env bash
# Makes TPC-H's lineitem as one Parquet file: data.sh SCALE  ->  $COSCAN_DATA/lineitem-sf<SCALE>.parquet
# All eight tables, a file each: data.sh SCALE tpch  ->  $COSCAN_DATA/tpch-sf<SCALE>/
#
# Settings: zstd(1), row groups of 48 MiB before compression (about 760,000 rows), the generator's
# page sizes, page index and dictionaries. The generator's own default (snappy, row groups of 7 MB)
# is not used: writers of large tables make larger row groups, and most of them use zstd. Rows are
# in l_orderkey order, so that column is the clustering key; keys run from 1 to 6,000,000 x SCALE.
# An existing file is kept. The script refuses if less than `reserve_gb` of the disk would stay
# free.
set -euo pipefail

scale="${1:?usage: data.sh SCALE [tpch] (for example 1, 10 or 40)}"
what="${2:-lineitem}"
data="${COSCAN_DATA:-$HOME/.cache/coscan/data}"
venv="${COSCAN_VENV:-$HOME/.cache/coscan/venv}"
row_group_bytes=$((48 * 1024 * 1024))
reserve_gb=20
mb_per_scale=180 # measured: 7.0 GB at scale 40

tables=() out="$data/tpch-sf$scale" made=
case "$what" in
tpch) mb_per_scale=$((mb_per_scale * 2)) ;;
lineitem) out="$data/lineitem-sf$scale.parquet" made=/lineitem.parquet tables=(--tables lineitem) ;;
*) echo "data.sh: $what is neither lineitem nor tpch" >&2; exit 2 ;;
esac
if [ -e "$out" ]; then
    echo "$out exists: $(du -sb "$out" | cut -f 1) bytes"
    exit 0
fi
mkdir -p "$data"
free_gb=$(($(df --output=avail -B1000000000 "$data" | tail -1)))
need_gb=$(awk -v s="$scale" -v m="$mb_per_scale" 'BEGIN { printf "%d", s * m / 1000 + 1 }')
if [ $((free_gb - need_gb)) -lt "$reserve_gb" ]; then
    echo "data.sh: $data has $free_gb GB free, scale $scale needs $need_gb and $reserve_gb stay free" >&2
    exit 1
fi

work="$(mktemp -d "$data/.making.XXXXXX")" # the final name appears only when the file is complete
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
"$venv/bin/tpchgen-cli" parquet --scale-factor "$scale" "${tables[@]}" --quiet \
    --compression 'zstd(1)' --row-group-bytes "$row_group_bytes" --output-dir "$work"
mv "$work$made" "$out"
echo "$out made: $(du -sb "$out" | cut -f 1) bytes"
