#!/bin/sh
# Opens a report in headless Chromium. Usage: test-browser.sh HUGETEXT
set -eu
hugetext=$(realpath "$1")
here=$(realpath "$(dirname "$0")/../tests/browser")
work=$(realpath "$(dirname "$0")/..")/target/browser
mkdir -p "$work"
cp "$here"/package.json "$here"/report.mjs "$work"
(cd "$work" && npm install --no-package-lock --no-audit --no-fund --silent)

# A warm program with a running process: cc1 waits for its input.
program=$work/cc1
cp "$(cc -print-prog-name=cc1)" "$program"
"$hugetext" warm "$program" || echo "the program cannot be warmed here"
mkfifo "$work/input" 2>/dev/null || true
"$program" -quiet -o /dev/null - <"$work/input" &
process=$!
trap 'kill $process; rm -f "$work/input" "$program"' EXIT
exec 3>"$work/input"
echo 'int one;' >&3

"$hugetext" bench exec --rounds 6 --per-round 5 --json >"$work/exec.json" || true
recorded=$here/../../crates/hugetext/tests/report
cp "$recorded/mprotect.json" "$recorded/tlb.json" "$work/"
set --
for result in exec mprotect tlb; do
    if [ -s "$work/$result.json" ]; then set -- "$@" --bench "$work/$result.json"; fi
done
"$hugetext" report -o "$work/report.html" "$@" "$program" /bin/true $$ "$process"
(cd "$work" && node report.mjs report.html screenshots)
echo "screenshots: target/browser/screenshots"
