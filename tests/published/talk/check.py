"""Judges the report of `auricle bench --talk --json`: every turn was answered, and nothing failed. What the model says is not judged."""

import json
import statistics
import sys

whole = json.load(open(sys.argv[1]))
report, parts = whole["report"], whole["mean_parts_ms"]
times = sorted(report["voice_to_voice_ms"])
print(f"{report['calls']} calls, {report['replies']} replies; voice to voice: median {statistics.median(times):.0f} ms, longest {times[-1]} ms")
print("mean parts, ms:", ", ".join(f"{part} {value:.0f}" for part, value in parts.items()))
faults = {name: report[name] for name in ("unanswered", "phantom_turns", "leaked_frames") if report[name]}
if report["errors"]:
    faults["errors"] = report["errors"]
if not times or parts.get("first_text", 0) <= 0 or faults:
    sys.exit(f"the agent failed: {faults or 'no language model answered'}")
