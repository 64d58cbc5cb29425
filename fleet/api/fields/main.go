// Prints the fields of messages by the descriptors of the projects that define them, a line for each:
//
//	MESSAGE FIELD NUMBER TYPE
//
// The messages are named in the arguments. TYPE is as in the file descriptors: `repeated string`, `map string string`,
// `message nri.pkg.api.v1alpha1.Mount`.
package main

import (
	"fmt"
	"os"

	_ "github.com/containerd/containerd/api/services/snapshots/v1"
	_ "github.com/containerd/nri/pkg/api"
	_ "github.com/containerd/ttrpc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	_ "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func kind(field protoreflect.FieldDescriptor) string {
	switch {
	case field.IsMap():
		return fmt.Sprintf("map %s %s", kind(field.MapKey()), kind(field.MapValue()))
	case field.Kind() == protoreflect.MessageKind:
		return fmt.Sprintf("message %s", field.Message().FullName())
	default:
		return field.Kind().String()
	}
}

func main() {
	for _, name := range os.Args[1:] {
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
		message, isMessage := found.(protoreflect.MessageDescriptor)
		if err != nil || !isMessage {
			fmt.Fprintf(os.Stderr, "fields: no message %s: %v\n", name, err)
			os.Exit(1)
		}
		for i := range message.Fields().Len() {
			field := message.Fields().Get(i)
			label := ""
			if field.IsList() {
				label = "repeated "
			}
			fmt.Printf("%s %s %d %s%s\n", name, field.Name(), field.Number(), label, kind(field))
		}
	}
}
