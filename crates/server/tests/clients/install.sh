#!/usr/bin/env bash
# Installs the clients of one registry into a folder: install.sh python|go|jdbc|node FOLDER.
# Does nothing if they are installed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$2
mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
case $1 in
    python)
        wanted=$(sha256sum <"$here/requirements.txt")
        [ "$(cat "$folder/venv/installed" 2>/dev/null)" = "$wanted" ] && exit
        python3 -m venv "$folder/venv"
        "$folder/venv/bin/pip" install --quiet --requirement "$here/requirements.txt"
        echo "$wanted" >"$folder/venv/installed"
        ;;
    go)
        cd "$here/go"
        go build -o "$folder/go/clients" .
        ;;
    jdbc)
        version=$(cat "$here/java/driver-version")
        driver=org.postgresql:postgresql:$version
        mvn --quiet dependency:copy -Dartifact="$driver" -DoutputDirectory="$folder/jdbc" 1>&2
        run="java -cp $folder/jdbc/postgresql-$version.jar $here/java/Metadata.java"
        printf '#!/bin/sh\nexec %s "$@"\n' "$run" >"$folder/jdbc/metadata"
        chmod +x "$folder/jdbc/metadata"
        ;;
    node)
        mkdir -p "$folder/node"
        cp "$here"/node/* "$folder/node/"
        npm ci --prefix "$folder/node" --silent --no-audit --no-fund 1>&2
        printf '#!/bin/sh\nexec node %s "$@"\n' "$folder/node/client.js" >"$folder/node/run"
        chmod +x "$folder/node/run"
        ;;
    *)
        echo "python, go, jdbc or node, not $1" >&2
        exit 2
        ;;
esac
