// Command facts prints the fields of Kubernetes' API types and their protobuf numbers, as JSON.
//
// It is built with k8s.io/api, k8s.io/apimachinery and k8s.io/apiextensions-apiserver of one minor. __main__.py builds
// and runs it for every minor, and keeps the differences.
package main

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	events "k8s.io/api/events/v1"
	node "k8s.io/api/node/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	scheduling "k8s.io/api/scheduling/v1"
	storage "k8s.io/api/storage/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

var packages = []func(*runtime.Scheme) error{
	admissionregistration.AddToScheme, apps.AddToScheme, authentication.AddToScheme, authorization.AddToScheme,
	autoscalingv1.AddToScheme, autoscaling.AddToScheme, batch.AddToScheme, coordination.AddToScheme,
	core.AddToScheme, discovery.AddToScheme, events.AddToScheme, node.AddToScheme, policy.AddToScheme,
	rbac.AddToScheme, scheduling.AddToScheme, storage.AddToScheme, apiextensions.AddToScheme,
}

// scalars are types that the facts describe by one word, without the fields of their Go types.
var scalars = map[string]string{
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":                                          "time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":                                     "microtime",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":                                      "object",
	"k8s.io/apimachinery/pkg/api/resource.Quantity":                                      "quantity",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString":                                    "intOrString",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":                                       "any",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON":                      "any",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool":     "any",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray":    "any",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray": "any",
}

type definitions map[string]map[string]string

type walk struct {
	types    definitions
	protobuf definitions
}

func main() {
	scheme := runtime.NewScheme()
	for _, add := range packages {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	w := walk{definitions{}, definitions{}}
	for _, known := range scheme.AllKnownTypes() {
		w.visit(known)
	}
	w.visit(reflect.TypeOf(meta.Status{}))
	w.visit(reflect.TypeOf(meta.PartialObjectMetadata{}))
	w.visit(reflect.TypeOf(meta.DeleteOptions{}))
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"types": w.types, "protobuf": w.protobuf}); err != nil {
		panic(err)
	}
}

func definition(t reflect.Type) string {
	path := strings.Split(t.PkgPath(), "/")
	path[0] = "io.k8s"
	return strings.Join(path, ".") + "." + t.Name()
}

// goName returns the name of a type as error messages show it; empty for types without a name.
func goName(t reflect.Type) string {
	if t.Name() == "" || t.PkgPath() == "" {
		return ""
	}
	return t.String()
}

func (w walk) visit(t reflect.Type) {
	if _, known := w.types[definition(t)]; known {
		return
	}
	fields, numbers := map[string]string{}, map[string]string{}
	w.types[definition(t)], w.protobuf[definition(t)] = fields, numbers
	w.fields(t, fields, numbers)
}

func (w walk) fields(t reflect.Type, fields, numbers map[string]string) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		number := ""
		if parts := strings.Split(field.Tag.Get("protobuf"), ","); len(parts) > 1 {
			number = parts[1]
		}
		inline := strings.Contains(options, "inline") || (field.Anonymous && name == "")
		if inline {
			if number != "" {
				numbers[number] = "<" + definition(field.Type)
				w.visit(field.Type)
			}
			w.fields(field.Type, fields, map[string]string{})
			continue
		}
		if name == "-" || name == "" {
			continue
		}
		if number != "" {
			numbers[number] = name
		}
		kind, goType := w.kind(field.Type)
		if strings.Contains(options, "omitempty") {
			kind = "?" + kind
		}
		if strings.Contains(options, "omitzero") {
			kind = "0" + kind
		}
		if goType != "" {
			kind += "=" + goType
		}
		fields[name] = kind
	}
}

// kind returns the description of a type, and the type's Go name if the description does not contain it.
func (w walk) kind(t reflect.Type) (string, string) {
	if scalar, ok := scalars[t.PkgPath()+"."+t.Name()]; ok {
		return scalar, ""
	}
	switch t.Kind() {
	case reflect.Pointer:
		kind, name := w.kind(t.Elem())
		return "*" + kind, name
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes", ""
		}
		kind, name := w.kind(t.Elem())
		if own := goName(t); own != "" {
			name = own
		}
		return "[]" + kind, name
	case reflect.Map:
		kind, name := w.kind(t.Elem())
		if own := goName(t); own != "" {
			name = own
		}
		return "{}" + kind, name
	case reflect.Struct:
		w.visit(t)
		return definition(t), ""
	case reflect.Interface:
		return "any", ""
	default:
		return t.Kind().String(), goName(t)
	}
}
