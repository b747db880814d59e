#!/usr/bin/env bash
# Everything there is to know about a GPU, correctness first: builds nothing, runs what benches/gpu/pack.sh packed.
#
#   benches/gpu/run.sh [FOLDER FOR LOGS]
#
# Needs a Vulkan driver and its loader (Debian: libvulkan1). Ends at the first stage that is not right.
set -euo pipefail
cd "$(dirname "$0")/../.."
packed=benches/gpu/bin/programs.tar.xz
out=${1:-${OUT:-$(mktemp -d)}}
mkdir -p "$out"
[ -r "$packed" ] || { echo "$packed is missing: run benches/gpu/pack.sh where there is a compiler" >&2; exit 2; }
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
# Python, as bare machines with a GPU have it more often than xz.
python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2], filter="data")' "$packed" "$unpacked"
bin=$unpacked/programs

export AURICLE_MODELS=$PWD/models AURICLE_TESTS=$PWD/tests AURICLE_TESTS_REQUIRE_ALL=1
stage() { printf '\n== %s\n' "$1"; shift; "$@" 2>&1 | tee -a "$out/gpu.log"; }
# A stage by a program that may have been left at home.
by() {
  if [ -x "$bin/$2" ]; then stage "$1" "$bin/$2" "${@:3}"; else printf '\n== %s: left out, %s was not packed\n' "$1" "$2"; fi
}

date -u | tee "$out/gpu.log"
stage "devices" "$bin/auricle" devices
"$bin/auricle" devices | grep -qE 'discrete|integrated|virtual' || { echo "no GPU here" >&2; exit 1; }
by "features against the published extractors" features
by "models against the published classes" fastconformer --skip published_size
by "kernels against their twins" kernels
by "kernels against burn's own operations" gemv
by "Whisper against the published class" whisper
by "Whisper writes the same on the GPU as on the CPU" whisper_gpu
stage "the same words as on the CPU" bash -c '
  for device in cpu gpu; do '"$bin"'/auricle transcribe models/samples/jfk.flac --device $device --format json >'"$out"'/$device.json; done
  python3 - '"$out"'/cpu.json '"$out"'/gpu.json <<PY
import json, sys
cpu, gpu = (json.load(open(p)) for p in sys.argv[1:])
assert cpu["text"] == gpu["text"], (cpu["text"], gpu["text"])
print("equal:", gpu["text"])
PY'
stage "this machine" "$bin/auricle" bench --device gpu
# What other programs reach on such a card at the size of 0.6 billion: 240 streams at 80 ms, 2,400 at 1.12 s.
by "live streams" streams --device gpu --look-aheads 0 --rows 1,64,240,480
by "live streams, 1.12 s" streams --device gpu --look-aheads 13 --rows 240,2400
for bench in logmel activation; do by "bench $bench" "$bench" --bench; done
# Beside the published class, and CTranslate2 where it is installed: random weights, all writing as many tokens.
if [ -x "$bin/whisper_speed" ] && python3 -c 'import torch, transformers' 2>/dev/null; then
  who=ours,transformers
  python3 -c 'import ctranslate2' 2>/dev/null && who=$who,ctranslate
  for shape in tiny small large-v3 turbo; do
    stage "Whisper $shape" python3 benches/whisper_peers.py "$shape" --folder "$out/checkpoints" --device cuda --who "$who" \
      --batches 1,8,32 --program "$bin/whisper_speed"
    rm -rf "$out/checkpoints"
  done
fi
echo "logs in $out"
