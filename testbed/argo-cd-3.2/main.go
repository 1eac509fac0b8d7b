// Program argo handles objects as Argo CD does: health with the scripts of argocd-cm, diff, and sync with prune.
//
// argo health   standard input (JSON): settings and objects ──▶ standard output (JSON): health of each object
// argo sync     standard input (JSON): all objects of the app ──▶ result of each; other objects of the app are deleted
// argo diff     standard input (JSON): all objects of the app ──▶ the objects that differ from the stored objects
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/lua"
	"github.com/argoproj/gitops-engine/pkg/cache"
	"github.com/argoproj/gitops-engine/pkg/diff"
	"github.com/argoproj/gitops-engine/pkg/engine"
	"github.com/argoproj/gitops-engine/pkg/health"
	"github.com/argoproj/gitops-engine/pkg/sync"
	"github.com/argoproj/gitops-engine/pkg/utils/kube"
	"github.com/argoproj/gitops-engine/pkg/utils/tracing"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	healthKey = "resource.customizations.health."
	owned     = "argocd.argoproj.io/tracking-id"
	manager   = "argocd-controller"
)

type question struct {
	// The keys of argocd-cm.
	Settings  map[string]string            `json:"settings"`
	Objects   []*unstructured.Unstructured `json:"objects"`
	Namespace string                       `json:"namespace"`
}

type outcome struct {
	Object  string `json:"object"`
	Status  string `json:"status"`
	Message string `json:"message"`
}

func main() {
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		log.Fatal(err)
	}
	objects := asked.Objects
	var answer interface{}
	var err error
	switch os.Args[1] {
	case "health":
		answer, err = healthOf(objects, asked.Settings)
	case "sync":
		answer, err = synced(objects, asked)
	case "diff":
		answer, err = differing(objects, asked)
	default:
		err = fmt.Errorf("no command %s", os.Args[1])
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(answer)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// overrides are the scripts of the settings by group and kind, as Argo CD reads them.
func overrides(settings map[string]string) lua.ResourceHealthOverrides {
	result := lua.ResourceHealthOverrides{}
	for key, script := range settings {
		if name, isHealth := strings.CutPrefix(key, healthKey); isHealth {
			group, kind, _ := strings.Cut(name, "_")
			result[group+"/"+kind] = v1alpha1.ResourceOverride{HealthLua: script}
		}
	}
	return result
}

func healthOf(objects []*unstructured.Unstructured, settings map[string]string) ([]outcome, error) {
	said := []outcome{}
	scripts := overrides(settings)
	for _, object := range objects {
		result, err := health.GetResourceHealth(object, scripts)
		if err != nil {
			return nil, err
		}
		if result == nil {
			return nil, fmt.Errorf("%s has no health", object.GetKind())
		}
		said = append(said, outcome{nameOf(object), string(result.Status), result.Message})
	}
	return said, nil
}

func connect() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}

func synced(objects []*unstructured.Unstructured, asked question) ([]outcome, error) {
	config, err := connect()
	if err != nil {
		return nil, err
	}
	keepOwner := cache.SetPopulateResourceInfoHandler(
		func(object *unstructured.Unstructured, _ bool) (interface{}, bool) {
			owner := object.GetAnnotations()[owned]
			return owner, owner != ""
		})
	quiet := logr.Discard()
	known := cache.NewClusterCache(config, keepOwner, cache.SetLogr(quiet))
	works := engine.NewEngine(config, known, engine.WithLogr(quiet))
	stop, err := works.Run()
	if err != nil {
		return nil, err
	}
	defer stop()
	for _, object := range objects {
		annotations := object.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[owned] = "app"
		object.SetAnnotations(annotations)
	}
	isManaged := func(resource *cache.Resource) bool { return resource.Info == "app" }
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	results, err := works.Sync(ctx, objects, isManaged, "1", asked.Namespace,
		sync.WithPrune(true),
		sync.WithServerSideApply(true),
		sync.WithServerSideApplyManager(manager),
		sync.WithHealthOverride(overrides(asked.Settings)),
		sync.WithLogr(quiet))
	if err != nil {
		return nil, err
	}
	said := []outcome{}
	for _, result := range results {
		name := result.ResourceKey.Kind + "/" + result.ResourceKey.Name
		said = append(said, outcome{name, string(result.Status), result.Message})
	}
	return said, nil
}

// differing compares on the server, as with ServerSideDiff=true.
func differing(objects []*unstructured.Unstructured, asked question) ([]outcome, error) {
	config, err := connect()
	if err != nil {
		return nil, err
	}
	commands := &kube.KubectlCmd{Log: logr.Discard(), Tracer: tracing.NopTracer{}}
	schema, parser, err := commands.LoadOpenAPISchema(config)
	if err != nil {
		return nil, err
	}
	nothing := func(string) (kube.CleanupFunc, error) { return func() {}, nil }
	dryRuns, cleanup, err := kube.ManageServerSideDiffDryRuns(
		config, schema, tracing.NopTracer{}, logr.Discard(), nothing)
	if err != nil {
		return nil, err
	}
	defer cleanup()
	said := []outcome{}
	for _, object := range objects {
		ctx := context.Background()
		live, err := commands.GetResource(ctx, config, object.GroupVersionKind(), object.GetName(), object.GetNamespace())
		if err != nil {
			return nil, err
		}
		object.SetAnnotations(map[string]string{owned: "app"})
		result, err := diff.Diff(object, live,
			diff.WithServerSideDiff(true),
			diff.WithIgnoreMutationWebhook(true),
			diff.WithServerSideDryRunner(diff.NewK8sServerSideDryRunner(dryRuns)),
			diff.WithManager(manager),
			diff.WithGVKParser(parser),
			diff.WithLogr(logr.Discard()))
		if err != nil {
			return nil, err
		}
		if result.Modified {
			said = append(said, outcome{nameOf(object), "OutOfSync", string(result.PredictedLive)})
		}
	}
	return said, nil
}

func nameOf(object *unstructured.Unstructured) string {
	return object.GetKind() + "/" + object.GetName()
}
