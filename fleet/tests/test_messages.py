"""The messages that the plugin and its test write by hand have the numbers and types that their projects give them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

FLEET = Path(__file__).resolve().parent.parent
TYPES = {"bytes": "bytes", "string": "string", "bool": "bool", "int32": "int32", "int64": "int64"}
# Names of others than NRI, and names that Rust spells in another way.
PLUGIN = {
    "Request": "ttrpc.Request",
    "Response": "ttrpc.Response",
    "Status": "google.rpc.Status",
    "LinuxCpu": "nri.pkg.api.v1alpha1.LinuxCPU",
    "MountsRequest": "containerd.services.snapshots.v1.MountsRequest",
    "MountsResponse": "containerd.services.snapshots.v1.MountsResponse",
    "SnapshotMount": "containerd.types.Mount",
}
# What the type Id stands for: a message whose first field is a text.
IDS = [
    "ContainerMetadata",
    "CreateContainerResponse",
    "ImageSpec",
    "RemovePodSandboxRequest",
    "RunPodSandboxResponse",
    "StartContainerRequest",
    "StopPodSandboxRequest",
]


def declared(path):
    """The messages of a file: for each its fields, with (number, type)."""
    messages = {}
    for name, body in re.findall(r"struct (\w+) \{\n(.*?)\n *\}", path.read_text(), re.DOTALL):
        fields = re.findall(r"#\[prost\((.*)\)\]\s*pub\(crate\) (?:r#)?(\w+): (.*),", body)
        messages[name] = {field: (number(how), kind(how, rust)) for how, field, rust in fields}
    return messages


def number(how):
    return int(re.search(r'tag = "(\d+)"', how)[1])


def kind(how, rust):
    """A type as `fields` prints it."""
    first = re.match(r"\w+", how)[0]
    if first == "map":
        return "map " + re.search(r'"(\w+), (\w+)"', how).expand(r"\1 \2")
    repeated = "repeated " if "repeated" in how else ""
    if first == "message":
        return repeated + "message " + re.search(r"<(\w+)>", rust)[1]
    return repeated + TYPES[first]


@pytest.fixture(scope="module", name="described")
def descriptors():
    """A function that gives the fields of messages, by their projects' own descriptors."""
    if not shutil.which("go"):
        pytest.skip("Go, which has the descriptors of the projects, is missing")
    program = FLEET.parent / "target/fleet/api/fields"
    subprocess.run(["go", "build", "-o", program, "./fields"], cwd=FLEET / "api", check=True)

    def described(names):
        done = subprocess.run([program, *names], capture_output=True, text=True, check=True)
        fields = {}
        for line in done.stdout.splitlines():
            message, field, number, kind = line.split(" ", 3)
            # An enumeration is an int32 on the wire.
            fields[message, field] = (int(number), kind.replace("enum", "int32"))
        return fields

    return described


@pytest.mark.parametrize(
    "file, package, names",
    [
        ("nri/src/messages.rs", "nri.pkg.api.v1alpha1", PLUGIN),
        ("nri/examples/cri.rs", "runtime.v1", {}),
    ],
)
def test_every_field_has_its_number_and_type(described, file, package, names):
    messages = declared(FLEET / file)
    ids = messages.pop("Id", None)
    full = {name: names.get(name, f"{package}.{name}") for name in messages}
    there = described(full.values())
    fields = [(name, *field) for name, fields in messages.items() for field in fields.items()]
    assert len(fields) > 20
    for name, field, (tag, wanted) in fields:
        told = there[full[name], field]
        if wanted == "message Id":
            assert told[0] == tag and told[1].rpartition(".")[2] in IDS, (name, field)
            continue
        words = [full.get(word, word) for word in wanted.split()]
        assert told == (tag, " ".join(words)), (name, field)
    if ids:
        [(tag, text)] = ids.values()
        identified = described([f"{package}.{name}" for name in IDS])
        firsts = {message for (message, _), field in identified.items() if field == (tag, text)}
        assert firsts == {f"{package}.{name}" for name in IDS}
