"""Answers of the published model held to JSON Schemas: every one that is not cut short must be valid, as `jsonschema` sees it."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import jsonschema

from compare import published

STRING, NUMBER, COUNT = {"type": "string"}, {"type": "number"}, {"type": "integer", "minimum": 0, "maximum": 100}


def record(optional: dict | None = None, **fields: dict) -> dict:
    """An object with these fields and no other."""
    return {
        "type": "object",
        "properties": fields | (optional or {}),
        "required": list(fields),
        "additionalProperties": False,
    }


def listed(item: dict, least: int = 1, most: int = 3) -> dict:
    return {"type": "array", "items": item, "minItems": least, "maxItems": most}


def short(most: int = 40) -> dict:
    return {"type": "string", "minLength": 1, "maxLength": most}


ASKED = [
    ("What is the capital of France?", record(capital=short())),
    ("Name two fruits.", record(fruits=listed(short(20), 2, 2))),
    ("How many legs has a spider?", record(legs=COUNT)),
    ("Is water wet?", record(wet={"type": "boolean"})),
    ("Describe a cat.", record(name=short(), age=COUNT, colours=listed({"enum": ["black", "white", "ginger"]}))),
    ("What is two plus two?", {"type": "integer"}),
    ("Give me a colour.", {"enum": ["red", "green", "blue"]}),
    ("When was the moon landing?", record(date={"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"})),
    ("Rate the film.", record(stars={"type": "integer", "minimum": 1, "maximum": 5}, why=short(60))),
    ("Where is Berlin?", record(place=record(city=short(), country=short()))),
    ("Write a shopping list.", listed(record(item=short(20), count=COUNT), 2, 4)),
    ("Who wrote Hamlet?", record(author=short(), year={"anyOf": [{"type": "integer"}, {"type": "null"}]})),
    ("Plan a day.", record(morning=short(), noon=short(), evening=short())),
    ("Is this spam: buy now?", record(label={"enum": ["spam", "ham"]}, sure=NUMBER)),
    ("Give a contact.", record(name=short(), email={"type": "string", "format": "email", "maxLength": 40})),
    ("Translate house.", record(de=short(20), fr=short(20), optional={"es": short(20)})),
    ("A point on a map.", {"type": "array", "prefixItems": [NUMBER, NUMBER], "items": False, "minItems": 2}),
    ("Nothing.", {"type": "null"}),
    (
        "A tree of three names.",
        {
            "$ref": "#/$defs/node",
            "$defs": {
                "node": record(name=short(12), optional={"children": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/leaf"}}}),
                "leaf": record(name=short(12)),
            },
        },
    ),
    ("Say hello.", {"type": "string", "maxLength": 30}),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--program", type=Path, required=True)
    args = parser.parse_args()
    asked = args.work / "schemas.json"
    asked.write_text(json.dumps([{"content": content, "schema": schema} for content, schema in ASKED]))
    made = subprocess.run([args.program, "schemas", published(), asked], check=True, capture_output=True, text=True).stdout
    valid, speeds = 0, {"held": [0, 0.0], "free": [0, 0.0]}
    for (content, schema), line in zip(ASKED, made.splitlines(), strict=True):
        answers = json.loads(line)
        for name, answer in answers.items():
            speeds[name][0] += answer["tokens"] - 1
            speeds[name][1] += answer["seconds"]
        text = answers["held"]["text"]
        try:
            jsonschema.validate(json.loads(text), schema, format_checker=jsonschema.FormatChecker())
            valid += 1
        except (ValueError, jsonschema.ValidationError) as error:
            print(f"INVALID ({answers['held']['finish_reason']}): {error}")
        print(f"{content:<32} {text[:100]}")
    held, free = (tokens / seconds for tokens, seconds in speeds.values())
    print(f"{valid} of {len(ASKED)} answers are valid; {held:.1f} tokens/s held, {free:.1f} free: {held / free:.2f}")
    return int(valid < len(ASKED))


if __name__ == "__main__":
    sys.exit(main())
