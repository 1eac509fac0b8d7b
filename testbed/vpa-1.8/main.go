// Program vpa asks the packages of VerticalPodAutoscaler about targets, as its recommender, updater and admission do.
//
// standard input (JSON): targets and names of pods ──▶ standard output (JSON): the selector of each target, and the
// controller of each pod, as VPA's updater and admission find it, or the error
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"time"

	autoscaling "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	vpa "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1"
	"k8s.io/autoscaler/vertical-pod-autoscaler/pkg/target"
	controllerfetcher "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/target/controller_fetcher"
	vpautil "k8s.io/autoscaler/vertical-pod-autoscaler/pkg/utils/vpa"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

type question struct {
	Namespace string                                      `json:"namespace"`
	Targets   []*autoscaling.CrossVersionObjectReference `json:"targets"`
	Pods      []string                                    `json:"pods"`
}

type selected struct {
	Selector string `json:"selector"`
	Error    string `json:"error"`
}

type controlled struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	APIVersion string `json:"apiVersion"`
	Error      string `json:"error"`
}

type answer struct {
	Targets []selected   `json:"targets"`
	Pods    []controlled `json:"pods"`
}

func main() {
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		log.Fatal(err)
	}
	result, err := ask(asked)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(result)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func ask(asked question) (answer, error) {
	result := answer{Targets: []selected{}, Pods: []controlled{}}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return result, err
	}
	config.QPS = -1
	access, err := kubernetes.NewForConfig(config)
	if err != nil {
		return result, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	factory := informers.NewSharedInformerFactory(access, time.Minute)
	selectors := target.NewVpaTargetSelectorFetcher(config, access, factory, ctx.Done())
	controllers := controllerfetcher.NewControllerFetcher(config, access, factory, time.Minute, time.Minute, 1, ctx.Done())
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for _, reference := range asked.Targets {
		item := &vpa.VerticalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: asked.Namespace, Name: reference.Name},
			Spec:       vpa.VerticalPodAutoscalerSpec{TargetRef: reference},
		}
		selector, err := selectors.Fetch(ctx, item)
		if err != nil {
			result.Targets = append(result.Targets, selected{Error: err.Error()})
			continue
		}
		result.Targets = append(result.Targets, selected{Selector: selector.String()})
	}
	for _, name := range asked.Pods {
		pod, err := access.CoreV1().Pods(asked.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return result, err
		}
		found, err := vpautil.FindParentControllerForPod(ctx, pod, controllers)
		switch {
		case err != nil:
			result.Pods = append(result.Pods, controlled{Error: err.Error()})
		case found == nil:
			result.Pods = append(result.Pods, controlled{})
		default:
			result.Pods = append(result.Pods, controlled{Kind: found.Kind, Name: found.Name, APIVersion: found.ApiVersion})
		}
	}
	return result, nil
}
