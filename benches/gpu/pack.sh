#!/usr/bin/env bash
# Builds what benches/gpu/run.sh runs and puts it into benches/gpu/bin, to be carried to a machine with a GPU.
#
#   benches/gpu/pack.sh [--features vulkan]
set -euo pipefail
cd "$(dirname "$0")/../.."
out=benches/gpu/bin
rm -rf "$out" && mkdir -p "$out"

# The programs that cargo built, from its own messages.
programs() {
  cargo "$@" --message-format=json |
    python3 -c 'import json,sys
for line in sys.stdin:
    m = json.loads(line)
    if m.get("executable"): print(m["target"]["name"], m["executable"])'
}
{
  # The whole workspace each time: the features of one package alone would compile burn again.
  programs build --release --workspace --bin auricle "$@"
  programs test --release --workspace --no-run --test fastconformer --test features --test rows --test whisper "$@"
  programs build --release --workspace --example whisper_speed "$@"
  programs bench --workspace --no-run --bench encoder --bench gate --bench logmel "$@"
} | while read -r name file; do
  cp "$file" "$out/$name"
  strip "$out/$name" 2>/dev/null || true
done
ls -l "$out"
