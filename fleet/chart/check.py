#!/usr/bin/env python3
"""Checks rendered manifests: check.py FILE. Those of Kubernetes itself are validated strictly against the schemas of
its API; fleet/api decodes the others."""

import sys

import kubernetes_validate
import yaml

VERSION = "1.30"
# Custom resources.
CUSTOM = {"monitoring.coreos.com/v1/PodMonitor", "nfd.k8s-sigs.io/v1alpha1/NodeFeatureRule"}


def check(manifest: dict) -> str:
    """Returns what the manifest is; raises an error if it is wrong."""
    kind = f"{manifest['apiVersion']}/{manifest['kind']}"
    if kind not in CUSTOM:
        kubernetes_validate.validate(manifest, VERSION, strict=True)
    return kind


def main() -> int:
    with open(sys.argv[1], encoding="utf-8") as rendered:
        manifests = [manifest for manifest in yaml.safe_load_all(rendered) if manifest]
    try:
        kinds = [check(manifest) for manifest in manifests]
    except kubernetes_validate.ValidationError as error:
        print(f"{sys.argv[1]}: {error}", file=sys.stderr)
        return 1
    print(f"{sys.argv[1]}: {', '.join(kinds)}")
    return 0 if kinds else 1


if __name__ == "__main__":
    sys.exit(main())
