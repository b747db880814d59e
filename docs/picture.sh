#!/usr/bin/env bash
# Draws docs/terminal.svg: the output of the real program on a terminal of 100 columns.
#
#   docs/picture.sh [PROGRAM]      the program, else target/release/auricle
#
# Needs `script` (Debian: bsdutils) and python3. The same output gives the same picture.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$(realpath "${1:-${CARGO_TARGET_DIR:-target}/release/auricle}")
output=$(mktemp)
trap 'rm -f "$output"' EXIT
export AURICLE_MODELS=$PWD/models

for arguments in "transcribe models/samples/jfk.flac" "transcribe --quiet models/samples/jfk.flac --format srt"; do
  printf '\033[1m$ auricle %s\033[0m\r\n' "$arguments"
  script --quiet --return --command "stty cols 100 rows 24; exec '$program' $arguments" /dev/null </dev/null
  printf '\r\n'
done >"$output"

python3 - "$output" docs/terminal.svg <<'PYTHON'
import re
import sys
from xml.sax.saxutils import escape

COLUMNS, CELL, LINE, SIZE, MARGIN = 100, 8.4, 20, 14, 20
source, picture = sys.argv[1:]
text = open(source, encoding="utf-8", newline="").read()

# The screen after the last byte. Each cell is a character and whether it is bold.
lines, column, bold = [[]], 0, False
for code, character in re.findall(r"\x1b\[([\d;?]*[A-Za-z])|([^\x1b])", text):
    line = lines[-1]
    if code == "2K":
        line.clear()
    elif code.endswith("m"):
        bold = code == "1m"
    elif character == "\r":
        column = 0
    elif character == "\n":
        lines.append([])
    elif character:
        if column == COLUMNS:
            lines.append([])
            line, column = lines[-1], 0
        line.extend([(" ", False)] * (column + 1 - len(line)))
        line[column] = (character, bold)
        column += 1
while lines and not any(character.strip() for character, _ in lines[-1]):
    lines.pop()

width, height = round(COLUMNS * CELL) + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN
out = [
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
    "<title>auricle transcribes a recording in a terminal</title>",
    f'<rect width="{width}" height="{height}" rx="8" fill="#16181d"/>',
    f'<g font-family="ui-monospace, Menlo, Consolas, \'DejaVu Sans Mono\', monospace" font-size="{SIZE}" fill="#d8dee9">',
]
for number, line in enumerate(lines):
    row = "".join(character for character, _ in line).rstrip()
    if not row.strip():
        continue
    start = len(row) - len(row.lstrip())
    style = ' fill="#a3d977" font-weight="bold"' if line[start][1] else ""
    # A fixed length keeps the columns in place whatever font the reader has.
    length = f"{(len(row) - start) * CELL:.1f}"
    x, y = f"{MARGIN + start * CELL:.1f}", MARGIN + number * LINE + SIZE
    out.append(f'<text x="{x}" y="{y}" textLength="{length}" xml:space="preserve"{style}>{escape(row.strip())}</text>')
out += ["</g>", "</svg>", ""]
open(picture, "w", encoding="utf-8").write("\n".join(out))
PYTHON
