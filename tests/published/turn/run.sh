#!/bin/sh
# Holds the turn detector to the published weights: `tests/published/turn/run.sh WORK SPEECH [CLIPS]`, after `cargo build --release`.
#
# WORK keeps the Python environment, the weights and the clips; SPEECH is a folder of recordings. CLIPS (120) pieces of them are judged
# by onnxruntime and by the engine. It fails where they differ by more than the README beside this file says.
set -eu
here=$(dirname "$0")
work=$1 speech=$2 clips=${3:-120}
python="$work/venv/bin/python"
if [ ! -x "$python" ]; then
    mkdir -p "$work"
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet numpy==2.4.6 soundfile==0.14.0 onnx==1.23.2 onnxruntime==1.32.0
fi
if [ ! -d "$work/pipecat" ]; then
    "$work/venv/bin/pip" download --quiet --no-deps --dest "$work" pipecat-ai==1.14.0
    "$python" -m zipfile -e "$work"/pipecat_ai-1.14.0-*.whl "$work"
fi
"$python" "$here/compare.py" --work "$work" --speech "$speech" --clips "$clips"
