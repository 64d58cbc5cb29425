// Decodes custom resources strictly by the Go types of their projects: strict FILE…
//
// Each FILE holds rendered manifests. A field that a type does not have is an error. All other kinds are left to the
// schemas of Kubernetes, which know no custom resource.
package main

import (
	"fmt"
	"os"
	"strings"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	nfd "sigs.k8s.io/node-feature-discovery/api/nfd/v1alpha1"
	"sigs.k8s.io/yaml"
)

// The kinds that the chart may use, and an empty value of each.
var kinds = map[string]func() any{
	"monitoring.coreos.com/v1/PodMonitor":      func() any { return new(monitoring.PodMonitor) },
	"nfd.k8s-sigs.io/v1alpha1/NodeFeatureRule": func() any { return new(nfd.NodeFeatureRule) },
}

func check(manifest string) (string, error) {
	var is struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal([]byte(manifest), &is); err != nil || is.Kind == "" {
		return "", err
	}
	kind := is.APIVersion + "/" + is.Kind
	empty, isKnown := kinds[kind]
	if !isKnown {
		return "", nil
	}
	if err := yaml.UnmarshalStrict([]byte(manifest), empty()); err != nil {
		return "", fmt.Errorf("%s: %w", kind, err)
	}
	return kind, nil
}

func main() {
	for _, path := range os.Args[1:] {
		content, err := os.ReadFile(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		for _, manifest := range strings.Split("\n"+string(content), "\n---") {
			kind, err := check(manifest)
			if err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
				os.Exit(1)
			}
			if kind != "" {
				fmt.Printf("%s: %s as its project decodes it\n", path, kind)
			}
		}
	}
}
