#!/usr/bin/env bash
# Builds what benches/gpu/run.sh runs and packs it into benches/gpu/bin/programs.tar.xz, to be carried to a machine with a GPU.
#
#   benches/gpu/pack.sh [--features vulkan] [-- PROGRAM...]
#
# All of them are 55 MB; where less can be carried, name some: auricle, features, fastconformer, gemv, kernels, whisper, whisper_gpu,
# whisper_speed, streams, logmel, activation, encoder. run.sh leaves out what is not there, and says so.
set -euo pipefail
cd "$(dirname "$0")/../.."
options=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1"); shift; done
wanted=" ${*:2} "
out=benches/gpu/bin
rm -rf "$out" && mkdir -p "$out/programs"

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
  programs build --release --workspace --bin auricle "${options[@]}"
  programs test --release --workspace --no-run --test fastconformer --test features --test gemv --test kernels \
    --test whisper --test whisper_gpu "${options[@]}"
  programs build --release --workspace --example whisper_speed --example streams "${options[@]}"
  programs bench --workspace --no-run --bench encoder --bench activation --bench logmel "${options[@]}"
} | while read -r name file; do
  [ "$wanted" = "  " ] || [[ "$wanted" == *" $name "* ]] || continue
  cp "$file" "$out/programs/$name"
  strip "$out/programs/$name" 2>/dev/null || true
done
# The programs hold much of the same code: a window that reaches over all of them keeps it once.
ls -l "$out/programs"
tar -C "$out" -cf - programs | xz --lzma2=preset=0,mode=fast,mf=hc4,dict=256MiB >"$out/programs.tar.xz"
rm -r "$out/programs"
ls -l "$out"
