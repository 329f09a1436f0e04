#!/usr/bin/env bash
# Runs every client's test, each with the real client from its registry (docs/design/clients.md).
# Arguments are names of tests: run.sh jdbc pgx. Without arguments all tests run.
set -euo pipefail
cd "$(dirname "$0")/../../../.."
cargo=${CARGO:-cargo}
if [ $# = 0 ]; then
    set -- ""
fi
for name in "$@"; do
    "$cargo" test --release -p coscan-server --test server -- --ignored --nocapture "clients::$name"
done
