"""Checks an AsyncAPI document's examples and recorded frames against its schemas, by the package jsonschema.

Reads JSON on standard input: the document, and by channel the frames that a service sent. Prints each fault.
"""

import json
import sys

from jsonschema import Draft7Validator

given = json.load(sys.stdin)
document, faults, checked = given["document"], [], set()


def validator(message):
    """The validator of a message's payload, with the document's schemas beside it."""
    return Draft7Validator({"$ref": "#/components/messages/" + message + "/payload", "components": document["components"]})


for name, message in document["components"]["messages"].items():
    for example in message.get("examples", []):
        faults += [f"example of {name}: {error.message}" for error in validator(name).iter_errors(example["payload"])]

for channel, frames in given["frames"].items():
    operations = [o for o in document["operations"].values() if o["action"] == "send"]
    operations = [o for o in operations if o["channel"]["$ref"] == "#/channels/" + channel]
    sent = [m["$ref"].split("/")[-1] for o in operations for m in o["messages"]]
    for frame in frames:
        fits = [name for name in sent if validator(name).is_valid(frame)]
        checked.update(fits)
        if len(fits) != 1:
            faults.append(f"{channel}: a frame fits {fits}: {json.dumps(frame)[:300]}")

print("\n".join(faults + sorted(checked)))
sys.exit(bool(faults))
