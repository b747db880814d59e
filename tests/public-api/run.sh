#!/usr/bin/env bash
# Compares the public items of the engine with engine/public-api.txt. `run.sh --update` writes that file.
set -euo pipefail
cd "$(dirname "$0")/../.."
target="${CARGO_TARGET_DIR:-target}"

# JSON is an unstable output of rustdoc. The variable that permits it goes to rustdoc alone: build scripts look at it too,
# and would have everything built anew.
wrapper="$(mktemp)"
trap 'rm -f "$wrapper" "$wrapper.txt"' EXIT
printf '%s\n' '#!/bin/sh' 'case "$*" in *--crate-name*) RUSTC_BOOTSTRAP=1 exec rustdoc "$@" -Z unstable-options --output-format json;; esac' \
  'exec rustdoc "$@"' >"$wrapper"
chmod +x "$wrapper"
# The whole workspace, as it is checked: one package alone would have other features, and all it needs be built again.
RUSTDOC="$wrapper" cargo doc --quiet --release --workspace --no-deps
CARGO_TARGET_DIR="$target/public-api" cargo run --quiet --release --manifest-path tests/public-api/Cargo.toml -- \
  "$target/doc/auricle_engine.json" >"$wrapper.txt"
if [ "${1:-}" = --update ]; then
  cp "$wrapper.txt" engine/public-api.txt
elif ! diff -u engine/public-api.txt "$wrapper.txt"; then
  echo "The engine's public items differ from engine/public-api.txt. If that is meant: tests/public-api/run.sh --update" >&2
  exit 1
fi
