#!/usr/bin/env python3
"""Adds what `hugetext host --json` wrote on other machines to the record of the page: machines.py RECORD.jsonl FILE…

A file that was sent in twice is kept once. One that is no such document is named and left out.
"""

import json
import sys
from pathlib import Path


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    record, files = Path(sys.argv[1]), sys.argv[2:]
    lines = record.read_text().splitlines() if record.exists() else []
    for file in files:
        try:
            told = json.loads(Path(file).read_text())
            told["verdict"], told["machine"]["release"], told["platform"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"{file}: not what `hugetext host --json` writes: {error!r}", file=sys.stderr)
            continue
        line = json.dumps(told, sort_keys=True)
        if line not in lines:
            lines.append(line)
    lines.sort(key=lambda line: (json.loads(line)["verdict"], line))
    new = record.with_suffix(".new")
    new.write_text("".join(f"{line}\n" for line in lines))
    new.rename(record)


if __name__ == "__main__":
    main()
