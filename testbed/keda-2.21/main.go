// Program keda scales targets as KEDA's operator does: with its resolver and its scale executor.
//
// standard input (JSON): targets, whether their triggers are active, and the minimum number of pods
// ──▶ standard output (JSON): the resource, the counts before and after, the containers that KEDA reads, and the error
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"time"

	"github.com/go-logr/logr"
	keda "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	"github.com/kedacore/keda/v2/pkg/scaling/executor"
	"github.com/kedacore/keda/v2/pkg/scaling/resolver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	runtimelog "sigs.k8s.io/controller-runtime/pkg/log"
)

type question struct {
	Namespace string              `json:"namespace"`
	Targets   []*keda.ScaleTarget `json:"targets"`
	IsActive  bool                `json:"isActive"`
	Least     int32               `json:"least"`
}

type scaled struct {
	Resource   string   `json:"resource"`
	Before     int32    `json:"before"`
	After      int32    `json:"after"`
	Containers []string `json:"containers"`
	Ready      string   `json:"ready"`
	Error      string   `json:"error"`
}

// cluster has the clients of KEDA's operator.
type cluster struct {
	access client.Client
	scales scale.ScalesGetter
}

func main() {
	runtimelog.SetLogger(logr.Discard())
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		log.Fatal(err)
	}
	connected, err := connect()
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	answers := []scaled{}
	for _, target := range asked.Targets {
		result, err := connected.scaleTarget(ctx, asked, target)
		if err != nil {
			result.Error = err.Error()
		}
		answers = append(answers, result)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		log.Fatal(err)
	}
}

func connect() (cluster, error) {
	utilruntime.Must(keda.AddToScheme(scheme.Scheme))
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return cluster{}, err
	}
	config.QPS = -1
	access, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return cluster{}, err
	}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return cluster{}, err
	}
	web, err := rest.HTTPClientFor(config)
	if err != nil {
		return cluster{}, err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, web)
	if err != nil {
		return cluster{}, err
	}
	resolves := scale.NewDiscoveryScaleKindResolver(found)
	scales := scale.New(found.RESTClient(), mapper, dynamic.LegacyAPIPathResolverFunc, resolves)
	return cluster{access, scales}, nil
}

// scaleTarget does what the operator's scale loop does for a ScaledObject with this target.
func (c cluster) scaleTarget(ctx context.Context, asked question, target *keda.ScaleTarget) (scaled, error) {
	result := scaled{Containers: []string{}}
	resource, err := keda.ParseGVKR(c.access.RESTMapper(), target.APIVersion, target.Kind)
	if err != nil {
		return result, err
	}
	result.Resource = resource.Resource
	object := &keda.ScaledObject{
		ObjectMeta: metav1.ObjectMeta{Namespace: asked.Namespace, Name: target.Name},
		Spec:       keda.ScaledObjectSpec{ScaleTargetRef: target, MinReplicaCount: &asked.Least},
		Status:     keda.ScaledObjectStatus{ScaleTargetKind: resource.GVKString(), ScaleTargetGVKR: &resource},
	}
	if result.Before, err = resolver.GetCurrentReplicas(ctx, c.access, c.scales, object); err != nil {
		return result, err
	}
	template, _, err := resolver.ResolveScaleTargetPodSpec(ctx, c.access, object)
	if err != nil {
		return result, err
	}
	if template != nil {
		for _, container := range template.Spec.Containers {
			result.Containers = append(result.Containers, container.Name)
		}
	}
	executes := executor.NewScaleExecutor(c.access, c.scales, scheme.Scheme, 10*time.Second, &events.FakeRecorder{})
	done := executes.RequestScale(ctx, object, asked.IsActive, false, executor.ScaleExecutorOptions{ActiveTriggers: []string{"cron"}})
	if done.Error != nil {
		return result, done.Error
	}
	ready := done.Conditions.GetReadyCondition()
	result.Ready = string(ready.Status)
	result.After, err = resolver.GetCurrentReplicas(ctx, c.access, c.scales, object)
	return result, err
}
