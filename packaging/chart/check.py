#!/usr/bin/env python3
"""Renders the chart and holds its objects to Kubernetes' schemas: packaging/chart/check.py

The settings that the chart and compose.yaml name are documented ones. It needs helm-python-sdk and kubernetes-validate of pip.
"""

import pathlib
import re
import sys

import helm_python
import kubernetes_validate
import yaml

CHART = pathlib.Path(__file__).parent
VALUES = [
    {},
    {"models": {"persistentVolumeClaim": {"claimName": "models"}}, "settings": {"job_workers": 4, "allow_private_hosts": ["10.0.0.7"]}},
    {"worker": {"most": 0, "replicas": 3}, "image": {"tag": "1.2.3"}},
]


def main():
    lines = (CHART.parents[1] / "docs/settings.md").read_text().splitlines()
    settings = {key for line in lines if line.startswith("| `") for key in re.findall(r"`(\w+)`", line.split("|")[1])}

    def hold(names):
        unknown = [name for name in names if name.startswith("AURICLE_") and name.removeprefix("AURICLE_").lower() not in settings]
        if unknown:
            sys.exit(f"no such settings: {unknown}")

    for service in yaml.safe_load((CHART.parent / "compose.yaml").read_text())["services"].values():
        hold(service["environment"])
    kinds = []
    for values in VALUES:
        with helm_python.Chart.load(str(CHART)) as chart:
            texts = chart.render(values, name="speech", namespace="default")
        objects = [found for text in texts.values() for found in yaml.safe_load_all(text) if found]
        for found in objects:
            kubernetes_validate.validate(found, "1.34", strict=True)
            if found["kind"] == "ConfigMap":
                hold(found["data"])
        kinds.append(sorted(found["kind"] for found in objects))
    assert kinds[0] == ["ConfigMap", "Deployment", "Deployment", "Deployment", "HorizontalPodAutoscaler", "Service", "Service"], kinds
    assert "HorizontalPodAutoscaler" not in kinds[2], kinds


main()
