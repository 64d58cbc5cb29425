#!/bin/sh
# node runs the TypeScript compiler, whose code is large, on a small file.
# Prepares its input in the directory $1. Prints a title, the program, and the words of the command.
set -eu
node=$(command -v node) || { echo "nodejs" >&2; exit 3; }
compiler=/usr/share/nodejs/typescript/lib/tsc.js
[ -f "$compiler" ] || { echo "node-typescript" >&2; exit 3; }
cat > "$1/shapes.ts" << 'END'
type Shape = { kind: "circle"; r: number } | { kind: "box"; w: number; h: number };
const area = (s: Shape): number => s.kind === "circle" ? Math.PI * s.r ** 2 : s.w * s.h;
const shapes: ReadonlyArray<Shape> = [{ kind: "circle", r: 2 }, { kind: "box", w: 1, h: 3 }];
export const total: number = shapes.map(area).reduce((a, b) => a + b, 0);
END
# Debian's node keeps its text in a library.
library=$(ldd "$(readlink -f "$node")" | awk '/libnode/ { print $3 }')
echo "node runs the TypeScript compiler on a small file"
echo "${library:-$(readlink -f "$node")}"
printf '%s\n' "$node" "$compiler" --noEmit --target es2020 "$1/shapes.ts"
