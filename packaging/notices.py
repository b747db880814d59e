#!/usr/bin/env python3
"""Writes the licences of all crates in the program, for packages: packaging/notices.py > THIRD_PARTY_NOTICES.txt

With `--sbom` it writes the crates as a bill of materials (CycloneDX 1.6). It fails for a crate whose licence is not among those that
deny.toml allows. It needs cargo, and the sources of the crates.
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
    """The packages that are linked into the program, by name and version, and the packages that each of them uses."""
    metadata = json.loads(cargo("metadata", "--format-version", "1", "--locked", "--features", "auricle/webrtc"))
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    open_ids = [id for id in metadata["workspace_members"] if packages[id]["name"] == "auricle"]
    uses = {}
    while open_ids:
        id = open_ids.pop()
        if id not in uses:
            uses[id] = [d["pkg"] for d in nodes[id]["deps"] if any(kind["kind"] is None for kind in d["dep_kinds"])]
            open_ids.extend(uses[id])
    found = sorted((packages[id] for id in uses), key=lambda package: (package["name"], package["version"]))
    return found, uses


def is_allowed(expression, allowed):
    """True if every part of an SPDX expression has a choice that is allowed: `(MIT OR Zlib) AND ISC`, `MIT/Zlib`."""
    parts = (part.strip(" ()") for part in expression.split(" AND "))
    return all(any(choice.strip() in allowed for choice in re.split(r" OR |/", part)) for part in parts)


def texts(package):
    """The texts of a package's licence files, in the order of their names."""
    folder = pathlib.Path(package["manifest_path"]).parent
    files = (file for file in folder.iterdir() if file.is_file() and file.name.lower().startswith(NAMES))
    return [file.read_text(errors="replace").strip() for file in sorted(files)]


def bill_of_materials():
    """The program, its crates with their check sums, and the starter models within it."""
    found, uses = program()
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    sums = {(package["name"], package["version"]): package.get("checksum") for package in lock}
    parts = {}
    for package in found:
        name, version = package["name"], package["version"]
        url = f"pkg:cargo/{name}@{version}"
        part = {"type": "library", "bom-ref": url, "name": name, "version": version, "purl": url}
        if package["license"]:
            part["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        if sums.get((name, version)):
            part["hashes"] = [{"alg": "SHA-256", "content": sums[name, version]}]
        parts[package["id"]] = part
    root = next(parts.pop(package["id"]) for package in found if package["name"] == "auricle")
    refs = {package["id"]: f"pkg:cargo/{package['name']}@{package['version']}" for package in found}
    starters = sorted(card.parent.name for card in ROOT.glob("models/starter/*/README.md"))
    models = [{"type": "machine-learning-model", "bom-ref": f"starter/{name}", "name": name} for name in starters]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": root | {"type": "application"}},
        "components": list(parts.values()) + models,
        "dependencies": [{"ref": refs[id], "dependsOn": sorted({refs[used] for used in uses[id]})} for id in sorted(uses, key=refs.get)],
    }


def main():
    if sys.argv[1:] == ["--sbom"]:
        print(json.dumps(bill_of_materials(), indent=1))
        return
    allowed = set(tomllib.loads((ROOT / "deny.toml").read_text())["licenses"]["allow"])
    users, wrong = collections.defaultdict(list), []
    print("Auricle contains these works of others.\n")
    for package in program()[0]:
        if not package["source"]:
            continue
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
