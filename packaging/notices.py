#!/usr/bin/env python3
"""Writes the licences of all crates in the program, for packages: packaging/notices.py > THIRD_PARTY_NOTICES.txt

Fails for a crate whose licence is not among those that deny.toml allows. It needs cargo, and the sources of the crates.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).parent.parent
NAMES = ("license", "licence", "copying", "notice", "copyright", "unlicense")


def cargo(*arguments):
    return subprocess.run(["cargo", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def program():
    """The packages that are linked into the program, by name and version."""
    metadata = json.loads(cargo("metadata", "--format-version", "1", "--locked"))
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    open_ids = [id for id in metadata["workspace_members"] if packages[id]["name"] == "auricle"]
    found = {}
    while open_ids:
        id = open_ids.pop()
        if id not in found:
            found[id] = packages[id]
            linked = (d["pkg"] for d in nodes[id]["deps"] if any(kind["kind"] is None for kind in d["dep_kinds"]))
            open_ids.extend(linked)
    others = [package for package in found.values() if package["source"]]
    return sorted(others, key=lambda package: (package["name"], package["version"]))


def is_allowed(expression, allowed):
    """True if every part of an SPDX expression has a choice that is allowed: `(MIT OR Zlib) AND ISC`, `MIT/Zlib`."""
    parts = (part.strip(" ()") for part in expression.split(" AND "))
    return all(any(choice.strip() in allowed for choice in re.split(r" OR |/", part)) for part in parts)


def texts(package):
    """The texts of a package's licence files, in the order of their names."""
    folder = pathlib.Path(package["manifest_path"]).parent
    files = (file for file in folder.iterdir() if file.is_file() and file.name.lower().startswith(NAMES))
    return [file.read_text(errors="replace").strip() for file in sorted(files)]


def main():
    allowed = set(tomllib.loads((ROOT / "deny.toml").read_text())["licenses"]["allow"])
    users, wrong = collections.defaultdict(list), []
    print("Auricle contains these works of others.\n")
    for package in program():
        name, licence = f"{package['name']} {package['version']}", package["license"] or "see its licence file"
        if package["license"] and not is_allowed(licence, allowed):
            wrong.append(f"{name}: {licence}")
        print(f"{name}: {licence}. {package['repository'] or ''}".strip())
        for text in texts(package):
            users[text].append(name)
    for text, names in users.items():
        print(f"\n{'=' * 100}\n{', '.join(names)}\n\n{text}")
    if wrong:
        sys.exit("deny.toml does not allow the licence of " + "; ".join(wrong))


main()
