#!/usr/bin/env bash
# Several nodes under load and faults: `tests/soak.sh MINUTES [other options of the soak program]`.
set -euo pipefail
cd "$(dirname "$0")/.."
exec cargo run --quiet --release --bin soak -- --minutes "${1:-30}" "${@:2}"
