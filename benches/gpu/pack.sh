#!/usr/bin/env bash
# Builds the programs that benches/gpu/run.sh runs and packs them into benches/gpu/bin/programs.tar.xz, for a machine with a GPU.
#
#   benches/gpu/pack.sh [--features vulkan] [-- PROGRAM...]
#
# All of them are some 130 MB, of which 75 are the starter models inside auricle; for a smaller archive, or two, name some: auricle,
# numerics, wer, whisper_speed, stream_steps, language_model, products, logmel, activation, encoder. run.sh skips missing programs with a
# message.
set -euo pipefail
cd "$(dirname "$0")/../.."
options=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do options+=("$1"); shift; done
wanted=" ${*:2} "
[ "$wanted" != "  " ] || wanted=" auricle numerics wer whisper_speed stream_steps language_model products logmel activation encoder "
out=benches/gpu/bin
rm -rf "$out" && mkdir -p "$out/programs"

# Prints the name and path of each program that cargo built.
programs() {
  cargo "$@" --message-format=json |
    python3 -c 'import json,sys
for line in sys.stdin:
    m = json.loads(line)
    if m.get("executable"): print(m["target"]["name"], m["executable"])'
}
{
  # Always the whole workspace: the features of one package alone would compile burn again.
  programs build --release --workspace --bin auricle "${options[@]}"
  programs test --release --workspace --no-run --test numerics "${options[@]}"
  programs build --release --workspace --bin wer --bin whisper_speed --bin stream_steps --bin products --bin language_model "${options[@]}"
  programs bench --workspace --no-run --bench encoder --bench activation --bench logmel "${options[@]}"
} | while read -r name file; do
  [[ "$wanted" == *" $name "* ]] || continue
  cp "$file" "$out/programs/$name"
  strip "$out/programs/$name" 2>/dev/null || true
done
# The programs share much code: a window larger than all of them stores it once.
ls -l "$out/programs"
tar -C "$out" -cf - programs | xz --x86 --lzma2=preset=3,dict=384MiB >"$out/programs.tar.xz"
rm -r "$out/programs"
ls -l "$out"
