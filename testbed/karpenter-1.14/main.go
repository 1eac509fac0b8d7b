// Program karpenter asks Karpenter's packages about pods, as its controllers of disruption and termination do.
//
// karpenter pods    standard input (JSON): a namespace ──▶ standard output (JSON): how Karpenter treats each of its pods
// karpenter evict   standard input (JSON): a namespace and a pod ──▶ standard output (JSON): how its eviction queue ends
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/go-logr/logr"
	core "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	runtimelog "sigs.k8s.io/controller-runtime/pkg/log"
	_ "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/node/termination/terminator"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/utils/disruption"
	"sigs.k8s.io/karpenter/pkg/utils/pdb"
	podutil "sigs.k8s.io/karpenter/pkg/utils/pod"
)

type question struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
}

type treatment struct {
	DaemonSet     bool     `json:"daemonSet"`
	StatefulSet   bool     `json:"statefulSet"`
	Reschedulable bool     `json:"reschedulable"`
	Disruptable   bool     `json:"disruptable"`
	Evictable     bool     `json:"evictable"`
	Drainable     bool     `json:"drainable"`
	Cost          float64  `json:"cost"`
	Blockers      []string `json:"blockers"`
}

type evicted struct {
	IsDone bool     `json:"isDone"`
	Events []string `json:"events"`
}

// recorder keeps the reasons of events.
type recorder struct {
	reasons []string
}

func (r *recorder) Publish(published ...events.Event) {
	for _, event := range published {
		r.reasons = append(r.reasons, event.Reason)
	}
}

func main() {
	runtimelog.SetLogger(logr.Discard())
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var result interface{}
	access, err := connect()
	if err == nil {
		switch os.Args[1] {
		case "pods":
			result, err = treat(ctx, access, asked.Namespace)
		case "evict":
			result, err = evict(ctx, access, asked)
		default:
			err = fmt.Errorf("no command %s", os.Args[1])
		}
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(result)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func connect() (client.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return client.New(config, client.Options{Scheme: scheme.Scheme})
}

func treat(ctx context.Context, access client.Client, namespace string) (map[string]treatment, error) {
	result := map[string]treatment{}
	var pods core.PodList
	if err := access.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	limits, err := pdb.NewLimits(ctx, access)
	if err != nil {
		return nil, err
	}
	now, kept := clock.RealClock{}, &recorder{}
	for index := range pods.Items {
		pod := &pods.Items[index]
		blockers := []string{}
		keys, _ := limits.CanEvictPods([]*core.Pod{pod}, now, kept)
		for _, key := range keys {
			blockers = append(blockers, key.Name)
		}
		result[pod.Name] = treatment{
			DaemonSet:     podutil.IsOwnedByDaemonSet(pod),
			StatefulSet:   podutil.IsOwnedByStatefulSet(pod),
			Reschedulable: podutil.IsReschedulable(pod),
			Disruptable:   podutil.IsDisruptable(pod, now, kept),
			Evictable:     podutil.IsEvictable(pod, now, kept),
			Drainable:     podutil.IsDrainable(pod, now),
			Cost:          disruption.EvictionCost(ctx, pod),
			Blockers:      blockers,
		}
	}
	return result, nil
}

// evict adds the pod to the eviction queue and reconciles it once. The queue keeps a pod whose eviction is refused.
func evict(ctx context.Context, access client.Client, asked question) (evicted, error) {
	pod := &core.Pod{}
	if err := access.Get(ctx, client.ObjectKey{Namespace: asked.Namespace, Name: asked.Pod}, pod); err != nil {
		return evicted{}, err
	}
	kept := &recorder{}
	queue := terminator.NewQueue(access, kept)
	queue.Add(pod)
	if _, err := queue.Reconcile(ctx, pod); err != nil {
		return evicted{}, err
	}
	return evicted{IsDone: !queue.Has(pod), Events: kept.reasons}, nil
}
