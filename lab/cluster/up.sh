#!/usr/bin/env bash
# A cluster of N workers on this machine, until a signal: up.sh N [OPTIONS of up.py]
exec "${PYTHON:-python3}" "$(dirname "$0")/up.py" "$@"
