"""Scores chapters and summaries on the meetings of QMSum (Zhong and others, 2021, MIT), which are not kept here.

pip install rouge-score==0.1.2
python tests/oracles/qmsum.py words QMSUM/data/ALL/test words.json
cargo run --release --bin insights -- words.json --out found.json
python tests/oracles/qmsum.py score QMSUM/data/ALL/test words.json found.json

Words are 350 ms long, 30 ms apart, and turns 300 ms more: the meetings have no times. Pk is counted in turns with half a mean
chapter as its window, at least 2; a chapter begins where the span of a topic does. ROUGE is the F1 score with stems against the
answers to general queries; the lead is the first 200 words.
"""

import itertools
import json
import re
import sys
from pathlib import Path


def meetings(folder: str) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted(Path(folder).glob("*.json"))]


def words_of(meeting: dict) -> tuple[list[dict], list[int]]:
    """The words, marks joined to them, and the turn of each."""
    words, turns, at = [], [], 0
    for turn, part in enumerate(meeting["meeting_transcripts"]):
        texts: list[str] = []
        for token in re.sub(r"\{[^}]*\}", " ", part["content"]).split():
            if texts and re.fullmatch(r"[.,?!;:]+|'\w+|n't", token):
                texts[-1] += token
            else:
                texts.append(token)
        for text in (text for text in texts if re.search(r"\w", text)):
            words.append({"text": text, "start": at, "end": at + 350, "confidence": 1.0, "speaker": part["speaker"]})
            turns.append(turn)
            at += 380
        at += 300
    return words, turns


def pk(reference: set[int], found: set[int], turns: int) -> float:
    def marks(starts: set[int]) -> list[int]:
        return list(itertools.accumulate(1 if turn in starts and turn > 0 else 0 for turn in range(turns)))

    ref, hyp = marks(reference), marks(found)
    window = max(2, round(turns / (2 * (ref[-1] + 1))))
    wrong = sum((ref[at] != ref[at + window]) != (hyp[at] != hyp[at + window]) for at in range(turns - window))
    return wrong / (turns - window)


def score(folder: str, found_path: str) -> None:
    from rouge_score import rouge_scorer

    kinds = ("rouge1", "rouge2", "rougeL")
    rouge = rouge_scorer.RougeScorer(list(kinds), use_stemmer=True)
    sums = {name: [0.0] * 3 for name in ("summary", "lead")}
    errors, scored = {"chapters": 0.0, "none": 0.0}, 0
    everything = meetings(folder)
    for meeting, found in zip(everything, json.loads(Path(found_path).read_text()), strict=True):
        words, turns = words_of(meeting)
        spans = {int(span[0]) for topic in meeting["topic_list"] for span in topic["relevant_text_span"]}
        count = len(meeting["meeting_transcripts"])
        errors["chapters"] += pk(spans, {turns[start] for start in found["starts"]}, count)
        errors["none"] += pk(spans, set(), count)
        references = [query["answer"] for query in meeting["general_query_list"]]
        if not references:
            continue
        scored += 1
        texts = {
            "summary": re.sub(r"(^|\n)- ", " ", found["summary"] or ""),
            "lead": " ".join(word["text"] for word in words[:200]),
        }
        for name, text in texts.items():
            for at, kind in enumerate(kinds):
                results = [rouge.score(reference, text)[kind].fmeasure for reference in references]
                sums[name][at] += sum(results) / len(results)
    for name, error in errors.items():
        print(f"Pk {name:<10}{error / len(everything):.3f}")
    for name, totals in sums.items():
        print(f"ROUGE-1/2/L {name:<10}" + " / ".join(f"{100 * total / scored:.1f}" for total in totals))


if __name__ == "__main__":
    if sys.argv[1] == "words":
        rows = [{"words": words_of(meeting)[0]} for meeting in meetings(sys.argv[2])]
        Path(sys.argv[3]).write_text(json.dumps(rows))
    else:
        score(sys.argv[2], sys.argv[4])
