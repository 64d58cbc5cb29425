#!/bin/sh
# Opens a report in headless Chromium. Usage: test-browser.sh HUGETEXT
set -eu
hugetext=$(realpath "$1")
here=$(realpath "$(dirname "$0")/../tests/browser")
work=$(realpath "$(dirname "$0")/..")/target/browser
mkdir -p "$work"
cp "$here"/package.json "$here"/report.mjs "$work"
(cd "$work" && npm install --no-package-lock --no-audit --no-fund --silent)

"$hugetext" bench mprotect --rounds 3 --size 64 --json >"$work/bench.json"
program=$(cc -print-prog-name=cc1)
sleep 1000 &
process=$!
trap 'kill $process' EXIT
"$hugetext" report -o "$work/report.html" --bench "$work/bench.json" "$program" /bin/true "$process"
(cd "$work" && node report.mjs report.html screenshots)
echo "screenshots: target/browser/screenshots"
