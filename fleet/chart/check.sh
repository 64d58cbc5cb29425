#!/usr/bin/env bash
# Checks the chart: fleet/chart/check.sh DIR. Tools are built and installed in DIR: helm from its Go module,
# kubernetes-validate with the schemas of Kubernetes' API, and a program with the Go types of custom resources.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# = 1 ] || { echo "usage: fleet/chart/check.sh DIR" >&2; exit 2; }
mkdir -p "$1"
tools=$(realpath "$1")
helm=v3.19.0

command -v go >/dev/null || { echo "skipped: Go builds helm, and is missing"; exit 0; }
if [ ! -x "$tools/$helm/helm" ]; then
    GOBIN=$tools/$helm go install "helm.sh/helm/v3/cmd/helm@$helm"
fi
go build -C "$here/../api" -o "$tools/strict" ./strict
if [ ! -e "$tools/packages" ]; then
    python3 -m venv "$tools/python"
    "$tools/python/bin/pip" install --quiet -r "$here/requirements.txt"
    touch "$tools/packages"
fi
# A helm that is built from its module takes the cluster for an old one.
render() { "$tools/$helm/helm" template hugetext "$here" --kube-version 1.30.0 "$@"; }

"$tools/$helm/helm" lint --strict "$here"
everything=(--set nri.enabled=true --set nri.atMost=copies --set nri.promote=true
    --set metrics.podMonitor=true --set nodeFeatureRule=true)
render >"$tools/default.yaml"
render "${everything[@]}" >"$tools/everything.yaml"
render --set metrics.enabled=false >"$tools/plain.yaml"
for rendered in default everything plain; do
    "$tools/python/bin/python" "$here/check.py" "$tools/$rendered.yaml"
    "$tools/strict" "$tools/$rendered.yaml"
done

die() { echo "fleet/chart/check.sh: $*" >&2; exit 1; }
# No process is changed unless the administrator lets pods ask for it.
rights='promote-if-asked|--requests|/run/hugetext-nri'
[ "$(grep -cE -- "$rights" "$tools/everything.yaml")" = 4 ] || die "with nri.promote, pods cannot ask for promotion"
! grep -E -- "$rights" "$tools/default.yaml" || die "pods may ask for promotion by default"
! render --set nri.promote=true >/dev/null 2>&1 || die "nri.promote does not need the plugin"
