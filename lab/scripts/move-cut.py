#!/usr/bin/env python3
"""Makes variants of a file that warms itself: move-cut.py FILE later|tail OUT

later: the text is cut one window later, so that the loader asks for one window less, and pairs of windows that are
read together are others. tail: the loader asks for no more than whole windows. Where the text is cut in two, that takes the
place of PT_PHDR or of the PT_NOTE that PT_GNU_PROPERTY repeats; ends with 1 if there is none. Addresses and bytes stay. x86-64
only, and sections are left as they are, so that the result is for measurements alone.
"""
import struct
import sys

PT_LOAD, PT_NOTE, PT_PHDR, PT_GNU_PROPERTY, PF_X = 1, 4, 6, 0x6474E553, 1
ET_DYN = 3
WINDOW = 2 << 20
HEADER = struct.Struct("<IIQQQQQQ")  # type, flags, offset, vaddr, paddr, filesz, memsz, align


def main():
    file, how, out = sys.argv[1:]
    data = bytearray(open(file, "rb").read())
    (kind,) = struct.unpack_from("<H", data, 16)
    (at,) = struct.unpack_from("<Q", data, 32)
    (count,) = struct.unpack_from("<H", data, 56)
    headers = [list(HEADER.unpack_from(data, at + index * HEADER.size)) for index in range(count)]
    # The largest part that was cut off.
    texts = [header for header in headers if header[0] == PT_LOAD and header[1] & PF_X]
    cut = max((text for text in texts if text[3] % WINDOW == 0),
              key=lambda text: text[5])
    index = headers.index(cut)
    before = headers[index - 1]
    # Whether it repeats a part of the PT_LOAD before.
    repeats = before[3] + before[6] > cut[3]
    if how == "later":
        for field, by in [(2, WINDOW), (3, WINDOW), (4, WINDOW), (5, -WINDOW), (6, -WINDOW)]:
            cut[field] += by
        if not repeats:
            before[5] += WINDOW
            before[6] += WINDOW
    elif repeats:
        cut[5] = cut[6] = cut[5] // WINDOW * WINDOW
    else:
        properties = [header[2:7] for header in headers if header[0] == PT_GNU_PROPERTY]
        spare = [header for header in headers if header[0] == PT_NOTE and header[2:7] in properties]
        spare += [header for header in headers if header[0] == PT_PHDR and kind != ET_DYN]
        head = (cut[3] + cut[5]) // WINDOW * WINDOW - cut[3]
        if not spare or head in (0, cut[5]):
            sys.exit(1)
        headers.remove(spare[0])
        tail = cut[:2] + [cut[2] + head, cut[3] + head, cut[4] + head, cut[5] - head, cut[6] - head, cut[7]]
        cut[5] = cut[6] = head
        headers.insert(headers.index(cut) + 1, tail)
    for index, header in enumerate(headers):
        HEADER.pack_into(data, at + index * HEADER.size, *header)
    with open(out, "wb") as new:
        new.write(data)


main()
