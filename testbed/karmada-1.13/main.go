// Program karmada runs interpreters of resources as Karmada does, in its own Lua with its own library.
//
// standard input (JSON): interpreters with objects, and the statuses of clusters ──▶ standard output (JSON): results of each
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"

	config "github.com/karmada-io/karmada/pkg/apis/config/v1alpha1"
	work "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	"github.com/karmada-io/karmada/pkg/resourceinterpreter/customized/declarative/luavm"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

type question struct {
	Interpreter json.RawMessage            `json:"interpreter"`
	Object      *unstructured.Unstructured `json:"object"`
	Statuses    []map[string]interface{}   `json:"statuses"`
	Replicas    int64                      `json:"replicas"`
}

type answer struct {
	Healthy    *bool                  `json:"healthy"`
	Replicas   *int32                 `json:"replicas"`
	Requested  map[string]string      `json:"requested"`
	Revised    map[string]interface{} `json:"revised"`
	Reflected  json.RawMessage        `json:"reflected"`
	Aggregated map[string]interface{} `json:"aggregated"`
}

func main() {
	var asked []question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		log.Fatal(err)
	}
	machine := luavm.New(false, 10)
	said := []answer{}
	for _, item := range asked {
		result, err := interpret(machine, item)
		if err != nil {
			log.Fatalf("%v: %v", item.Object.GetKind(), err)
		}
		said = append(said, result)
	}
	if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
		log.Fatal(err)
	}
}

func interpret(machine *luavm.VM, asked question) (answer, error) {
	result := answer{}
	var interpreter config.ResourceInterpreterCustomization
	strict := json.NewDecoder(bytes.NewReader(asked.Interpreter))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&interpreter); err != nil {
		return result, err
	}
	object := func() *unstructured.Unstructured {
		return asked.Object.DeepCopy()
	}
	if target := interpreter.Spec.Target; target.APIVersion != object().GetAPIVersion() || target.Kind != object().GetKind() {
		return result, fmt.Errorf("its interpreter is for %s %s", target.APIVersion, target.Kind)
	}
	rules := interpreter.Spec.Customizations
	if rules.HealthInterpretation != nil {
		healthy, err := machine.InterpretHealth(object(), rules.HealthInterpretation.LuaScript)
		if err != nil {
			return result, fmt.Errorf("health: %w", err)
		}
		result.Healthy = &healthy
	}
	if rules.ReplicaResource != nil {
		replicas, requirements, err := machine.GetReplicas(object(), rules.ReplicaResource.LuaScript)
		if err != nil {
			return result, fmt.Errorf("replicas: %w", err)
		}
		result.Replicas, result.Requested = &replicas, map[string]string{}
		if requirements != nil {
			for name, quantity := range requirements.ResourceRequest {
				result.Requested[string(name)] = quantity.String()
			}
		}
	}
	if rules.ReplicaRevision != nil {
		revised, err := machine.ReviseReplica(object(), asked.Replicas, rules.ReplicaRevision.LuaScript)
		if err != nil {
			return result, fmt.Errorf("revision: %w", err)
		}
		result.Revised = revised.Object
	}
	if rules.StatusReflection != nil {
		reflected, err := machine.ReflectStatus(object(), rules.StatusReflection.LuaScript)
		if err != nil {
			return result, fmt.Errorf("reflection: %w", err)
		}
		result.Reflected = reflected.Raw
	}
	if rules.StatusAggregation != nil {
		items := []work.AggregatedStatusItem{}
		for number, status := range asked.Statuses {
			raw, err := json.Marshal(status)
			if err != nil {
				return result, err
			}
			name := fmt.Sprintf("cluster-%d", number)
			items = append(items, work.AggregatedStatusItem{
				ClusterName: name, Status: &runtime.RawExtension{Raw: raw}, Applied: true,
			})
		}
		aggregated, err := machine.AggregateStatus(object(), items, rules.StatusAggregation.LuaScript)
		if err != nil {
			return result, fmt.Errorf("aggregation: %w", err)
		}
		result.Aggregated = aggregated.Object
	}
	return result, nil
}
