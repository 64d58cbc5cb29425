#!/usr/bin/env python3
"""Makes images of Debian packages: example.py DIR. Each image is an OCI layout in DIR whose layers are the
packages of one program as Debian ships them. Needs apt and its lists; installs and runs nothing."""

import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile

# What a container of each program would hold of large text; the C library is in all. "*" is a version: each suite has others.
IMAGES = {
    "node": ["libnode*"],
    "postgres": ["postgresql-*", "libllvm*"],
    "mariadb": ["mariadb-server-core"],
    "python": ["python3.*-minimal", "libpython3.*-stdlib"],
    "openjdk": ["openjdk-*-jre-headless"],
    # The compiler lies in the second of each pair since Debian 13.
    "gcc": ["gcc-*", "gcc-*-x86-64-linux-gnu", "cpp-*", "cpp-*-x86-64-linux-gnu", "binutils-x86-64-linux-gnu"],
}
BASE = ["libc6", "libstdc++6", "libgcc-s1"]


def add(blobs, content):
    """Writes a blob; returns its reference."""
    digest = hashlib.sha256(content).hexdigest()
    (blobs / digest).write_bytes(content)
    return {"digest": f"sha256:{digest}", "size": len(content)}


def newest(package, known):
    """The known package of the highest version that fits; the name itself where none does."""
    pattern = re.compile(re.escape(package).replace(r"\*", "([0-9]+)"))
    found = [match for match in map(pattern.fullmatch, known) if match]
    return max(found, key=lambda match: int(match[1]))[0] if found and "*" in package else package


def layer(blobs, package, place):
    """The files of a package as a layer; None where this suite has no such package."""
    got = subprocess.run(
        ["apt-get", "download", package], cwd=place, capture_output=True, check=False
    )
    found = sorted(place.glob(f"{package}_*.deb"))
    if got.returncode != 0 or not found:
        print(f"no package {package} here; its image is made without it", file=sys.stderr)
        return None
    command = ["dpkg-deb", "--fsys-tarfile", found[0]]
    return add(blobs, subprocess.run(command, capture_output=True, check=True).stdout)


def main(target):
    """Writes the layout."""
    blobs = target / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    layers, manifests = {}, []
    names = ["apt-cache", "pkgnames"]
    known = subprocess.run(names, capture_output=True, text=True, check=True).stdout.split()
    with tempfile.TemporaryDirectory() as place:
        for name, wanted in IMAGES.items():
            packages = [newest(package, known) for package in wanted]
            for package in BASE + packages:
                if package not in layers:
                    layers[package] = layer(blobs, package, pathlib.Path(place))
            own = [layers[package] for package in BASE + packages if layers[package]]
            config = add(blobs, json.dumps({"os": "linux", "name": name}).encode())
            manifest = {"schemaVersion": 2, "config": config, "layers": own}
            reference = add(blobs, json.dumps(manifest).encode())
            reference["annotations"] = {"org.opencontainers.image.ref.name": name}
            manifests.append(reference)
    index = {"schemaVersion": 2, "manifests": manifests}
    (target / "index.json").write_text(json.dumps(index))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
