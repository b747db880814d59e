#!/usr/bin/env python3
"""Makes a wheel of the tree that build.sh stages: packaging/wheel.py TREE VERSION PLATFORM FOLDER

pip puts the program into the environment's `bin`, the pages and completions into its `share`.
"""

import base64
import hashlib
import os
import pathlib
import subprocess
import sys
import time
import zipfile

# The default limit of a file on the index.
MOST_BYTES = 100 << 20

SUMMARY = "Speech to text, and text to speech, on your own machine"


class Smallest:
    """Deflate as small as it gets: zlib's best is half a megabyte over the index's limit."""

    def __init__(self):
        self.parts = []

    def compress(self, data):
        self.parts.append(data)
        return b""

    def flush(self):
        packed = subprocess.run(["libdeflate-gzip", "-12", "-c"], input=b"".join(self.parts), check=True, capture_output=True)
        # Between a header of ten bytes, as there is no name, and the check sum with the length.
        return packed.stdout[10:-8]


def files(tree, version, tag):
    """The wheel's files but RECORD: name, content, mode."""
    info = f"auricle-{version}.dist-info"
    yield f"auricle-{version}.data/scripts/auricle", (tree / "bin/auricle").read_bytes(), 0o755
    doc = tree / "share/doc/auricle"
    for file in sorted((tree / "share").rglob("*")):
        if file.is_file() and not file.is_relative_to(doc):
            yield f"auricle-{version}.data/data/{file.relative_to(tree)}", file.read_bytes(), 0o644
    licences = ["LICENSE-MIT", "LICENSE-APACHE", "THIRD_PARTY_NOTICES.txt", "cmudict.LICENSE"]
    licences += sorted(f"starters/{card.name}" for card in (doc / "starters").iterdir())
    for name in licences:
        yield f"{info}/licenses/{name}", (doc / name).read_bytes(), 0o644
    yield f"{info}/sboms/auricle.cdx.json", (doc / "auricle.cdx.json").read_bytes(), 0o644
    fields = ["Metadata-Version: 2.4", "Name: auricle", f"Version: {version}", f"Summary: {SUMMARY}"]
    fields += ["License-Expression: MIT OR Apache-2.0", *(f"License-File: {name}" for name in licences)]
    fields += ["Requires-Python: >=3.8", "Description-Content-Type: text/markdown"]
    yield f"{info}/METADATA", ("\n".join(fields) + "\n\n" + (doc / "README.md").read_text()).encode(), 0o644
    wheel = f"Wheel-Version: 1.0\nGenerator: auricle\nRoot-Is-Purelib: false\nTag: {tag}\n"
    yield f"{info}/WHEEL", wheel.encode(), 0o644


def main():
    tree, version, platform, folder = sys.argv[1:]
    tag = f"py3-none-{platform}"
    path = pathlib.Path(folder, f"auricle-{version}-{tag}.whl")
    date = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    record = []
    zipfile._get_compressor = lambda *_: Smallest()
    with zipfile.ZipFile(path, "w") as wheel:

        def add(name, content, mode):
            entry = zipfile.ZipInfo(name, date)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | mode) << 16
            wheel.writestr(entry, content)

        for name, content, mode in files(pathlib.Path(tree), version, tag):
            add(name, content, mode)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}\n")
        name = f"auricle-{version}.dist-info/RECORD"
        add(name, ("".join(record) + f"{name},,\n").encode(), 0o644)
    if path.stat().st_size > MOST_BYTES:
        print(f"{path.name} has {path.stat().st_size} bytes, and the index takes {MOST_BYTES} unless it raises the limit", file=sys.stderr)


main()
