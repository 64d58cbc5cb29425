#!/usr/bin/env python3
"""Writes a container image as an OCI layout, without a registry or a daemon.

    fleet/image.py OUT NAME ARCH=TAR[,TAR…]… [-- ENTRYPOINT…]

OUT is a new directory. Each TAR is a layer, the lowest first. ARCH is amd64 or arm64; an image of several
architectures gets an index of them. The same layers give the same bytes: nothing tells a time or a machine.
"""

import hashlib
import json
import shutil
import sys
from pathlib import Path

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Layout:
    """A layout that is being written."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.blobs = root / "blobs/sha256"
        self.blobs.mkdir(parents=True)

    def document(self, media_type: str, value: dict) -> dict:
        """Adds a JSON document, and returns its descriptor."""
        content = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
        digest = hashlib.sha256(content).hexdigest()
        (self.blobs / digest).write_bytes(content)
        return descriptor(media_type, digest, len(content))

    def file(self, media_type: str, path: Path) -> dict:
        """Adds a copy of a file, and returns its descriptor."""
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        shutil.copyfile(path, self.blobs / digest)
        return descriptor(media_type, digest, path.stat().st_size)

    def manifest(self, architecture: str, layers: list[Path], entrypoint: list[str]) -> dict:
        """Adds the image of one architecture, and returns the descriptor of its manifest."""
        described = [self.file(LAYER, layer) for layer in layers]
        platform = {"architecture": architecture, "os": "linux"}
        config = self.document(
            CONFIG,
            {
                **platform,
                "config": {"Entrypoint": entrypoint, "Env": [PATH]},
                "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in described]},
            },
        )
        body = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": described}
        return {**self.document(MANIFEST, body), "platform": platform}

    def finish(self, name: str, manifests: list[dict]) -> None:
        """Makes the manifests the image `name`."""
        image = manifests[0]
        if len(manifests) > 1:
            body = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}
            image = self.document(INDEX, body)
        tag = name.rpartition(":")[2]
        image = {
            **image,
            "annotations": {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag},
        }
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [image]}
        (self.root / "index.json").write_text(json.dumps(index, sort_keys=True))
        (self.root / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')


def descriptor(media_type: str, digest: str, size: int) -> dict:
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": size}


def main() -> int:
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    words, entrypoint = words[:split], words[split + 1 :]
    if len(words) < 3 or not all("=" in word for word in words[2:]):
        print(f"{sys.argv[0]}: its first lines say how it is called", file=sys.stderr)
        return 2
    out, name, *architectures = words
    try:
        layout = Layout(Path(out))
        manifests = []
        for word in architectures:
            architecture, _, layers = word.partition("=")
            paths = [Path(layer) for layer in layers.split(",")]
            manifests.append(layout.manifest(architecture, paths, entrypoint))
        layout.finish(name, manifests)
    except OSError as error:
        print(f"{sys.argv[0]}: {error}; OUT must not exist", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
