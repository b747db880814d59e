"""Prints how many personal words `auricle analyze --pii --lines` hides, how many of the hidden words are personal, and in how
many harmless sentences it hides something.

Usage: evaluate.py PROGRAM sentences.jsonl [--show]
"""

import json
import re
import shlex
import subprocess
import sys
from collections import Counter


def main(program, path, show=""):
    lines = [json.loads(line) for line in open(path)]
    texts = "".join(line["text"] + "\n" for line in lines)
    command = shlex.split(program)
    found = subprocess.run(command, input=texts, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(found) == len(lines), f"{len(found)} results for {len(lines)} lines"
    personal, hidden, right, false, sentences = Counter(), Counter(), Counter(), 0, 0
    missed_labels, labels = Counter(), Counter()
    for line, result in zip(lines, map(json.loads, found)):
        form = line["form"]
        spans = result["entities"]
        for span in spans:
            assert line["text"][span["start_char"]:span["end_char"]] == span["text"], (line["text"], span)
        if form == "harmless":
            sentences += 1
            false += bool(spans)
            if spans and show:
                print("HARMLESS", line["text"], [(span["text"], span["label"]) for span in spans])
            continue
        wrong = False
        for word in re.finditer(r"\S+", line["text"]):
            within = lambda start, end: start < word.end() and end > word.start()
            gold = next((span["label"] for span in line["spans"] if within(span["start"], span["end"])), None)
            is_hidden = any(within(span["start_char"], span["end_char"]) for span in spans)
            personal[form] += gold is not None
            hidden[form] += is_hidden
            right[form] += gold is not None and is_hidden
            labels[gold] += 1
            missed_labels[gold] += gold is not None and not is_hidden
            wrong |= (gold is not None) != is_hidden
        if wrong and show:
            print(form.upper(), result["redacted"], "<-", line["text"])
    for form in personal:
        print(f"{form:8} hidden {100 * right[form] / personal[form]:5.1f} %   precision {100 * right[form] / max(1, hidden[form]):5.1f} %   ({personal[form]} personal words)")
    print(f"harmless false in {100 * false / max(1, sentences):.1f} % of {sentences} sentences")
    worst = {label: f"{100 * missed_labels[label] / labels[label]:.0f} %" for label in labels if missed_labels[label]}
    print("missed by label:", worst)


main(*sys.argv[1:])
