#!/usr/bin/env bash
# Fuzzes every target for so many seconds each, one after another, or the targets that are named; ends at the first that
# finds something, which libFuzzer has then written to a file and named.
#
#   tests/fuzz/run.sh SECONDS [checkpoints] [decode] [frames] [requests]
#
# Needs cargo-fuzz (`cargo install cargo-fuzz`), and ffmpeg for the media that `decode` begins with. A nightly compiler is
# used if there is one; the stable one can do it too by a flag. FUZZ_FOLDER keeps builds and interesting inputs.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:?seconds for each target}
shift
targets=("$@")
[ "${#targets[@]}" -gt 0 ] || targets=(checkpoints decode frames requests)
folder=${FUZZ_FOLDER:-$PWD/target}
mkdir -p "$folder"
# The program lies below this folder, where no models are above it.
export AURICLE_MODELS=$PWD/../../models

fuzz=(cargo fuzz)
if rustup toolchain list 2>/dev/null | grep -q ^nightly; then fuzz=(cargo +nightly fuzz); else export RUSTC_BOOTSTRAP=1; fi
# No code but the kernels' is unsafe, and no target runs a kernel: a sanitizer of memory would only cost time.
how=(--sanitizer none --fuzz-dir "$PWD" --target-dir "$folder/build")

# A fifth of a second in every kind of file that the decoder knows.
media() {
  mkdir -p "$1"
  local tone=(-f lavfi -i "sine=frequency=440:sample_rate=48000:duration=0.2" -ac 2 -loglevel error -y)
  for kind in wav:pcm_s16le wav:pcm_f32le wav:adpcm_ms wav:pcm_mulaw aiff:pcm_s16be caf:alac mp3:libmp3lame flac:flac \
    ogg:libvorbis ogg:libopus ogg:flac mka:aac mka:pcm_s24le webm:libopus m4a:aac m4a:alac mp4:libopus aac:aac mp2:mp2; do
    local file="$1/${kind/:/-}.${kind%%:*}"
    [ -s "$file" ] || ffmpeg "${tone[@]}" -c:a "${kind##*:}" "$file"
  done
}

# Checkpoint files of the tests.
checkpoints() {
  mkdir -p "$1"
  local here=$PWD/../fixtures
  cp "$here/gguf/types.gguf" "$here/kokoro/voices/af_ann.pt" "$here/smart_turn/quantized.onnx" "$1"
  cp "$here/decoder/qwen3_gguf/model.gguf" "$1/qwen3.gguf"
  cp "$here/pocket_tts/pocket/voices/ann.safetensors" "$1"
  # Heads of files, whose tensors would be longer than an input may be.
  head -c 90000 "$here/whisper_forms/ggml-mixed.bin" >"$1/ggml.bin"
  head -c 20000 "$here/whisper_forms/ct2-int8/model.bin" >"$1/ct2.bin"
  cp "$here/whisper_forms/gguf/model-00002-of-00002.gguf" "$1/shard.gguf"
}

for target in "${targets[@]}"; do
  "${fuzz[@]}" build "${how[@]}" "$target"
  corpus="$folder/corpus/$target"
  mkdir -p "$corpus"
  options=(-max_total_time="$seconds" -timeout=25 -rss_limit_mb=4096 -print_final_stats=1)
  case $target in
    checkpoints) checkpoints "$folder/seeds/checkpoints"; seeds=$folder/seeds/checkpoints; options+=(-max_len=262144) ;;
    decode) media "$folder/seeds/decode"; seeds=$folder/seeds/decode; options+=(-max_len=65536) ;;
    requests) seeds=$PWD/seeds/requests; options+=(-dict="$PWD/requests.dict") ;;
    *) seeds=$PWD/seeds/$target ;;
  esac
  echo "== $target, $seconds s"
  "${fuzz[@]}" run "${how[@]}" "$target" "$corpus" "$seeds" -- "${options[@]}"
done
