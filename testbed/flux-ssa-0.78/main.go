// Program flux handles objects as Flux does: it applies them, waits for them, and reads their status with kstatus.
//
// flux status   standard input (JSON): objects ──▶ standard output (JSON): status of each
// flux apply    standard input (JSON): objects ──▶ standard output (JSON): what each apply did, and the error of the wait
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/ssa"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	runtimelog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
)

type applied struct {
	Actions map[string]string `json:"actions"`
	Wait    string            `json:"wait"`
}

func main() {
	runtimelog.SetLogger(logr.Discard())
	var objects []*unstructured.Unstructured
	question, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = json.Unmarshal(question, &objects)
	}
	if err != nil {
		log.Fatal(err)
	}
	var answer interface{}
	switch os.Args[1] {
	case "status":
		answer, err = statuses(objects)
	case "apply":
		answer, err = apply(objects)
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

func statuses(objects []*unstructured.Unstructured) ([]string, error) {
	said := []string{}
	for _, object := range objects {
		result, err := status.Compute(object)
		if err != nil {
			return nil, err
		}
		said = append(said, result.Status.String())
	}
	return said, nil
}

// apply applies the objects and waits for them, as kustomize-controller does with `wait: true`.
func apply(objects []*unstructured.Unstructured) (applied, error) {
	result := applied{Actions: map[string]string{}}
	timeout, err := time.ParseDuration(os.Getenv("TIMEOUT"))
	if err != nil {
		return result, err
	}
	manager, err := connect()
	if err != nil {
		return result, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout+time.Minute)
	defer cancel()
	changes, err := manager.ApplyAllStaged(ctx, objects, ssa.DefaultApplyOptions())
	if err != nil {
		return result, err
	}
	for _, entry := range changes.Entries {
		result.Actions[entry.ObjMetadata.GroupKind.Kind+"/"+entry.ObjMetadata.Name] = string(entry.Action)
	}
	waiting := ssa.WaitOptions{Interval: 500 * time.Millisecond, Timeout: timeout, FailFast: true}
	if err := manager.WaitForSet(changes.ToObjMetadataSet(), waiting); err != nil {
		result.Wait = err.Error()
	}
	return result, nil
}

func connect() (*ssa.ResourceManager, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	web, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, web)
	if err != nil {
		return nil, err
	}
	access, err := client.New(config, client.Options{Mapper: mapper})
	if err != nil {
		return nil, err
	}
	poller := polling.NewStatusPoller(access, mapper, polling.Options{})
	owner := ssa.Owner{Field: "kustomize-controller", Group: "kustomize.toolkit.fluxcd.io"}
	return ssa.NewResourceManager(access, poller, owner), nil
}
