// Program client-go uses client-go and the typed clients of kruise-api as operators in Go do.
//
// standard input (JSON): objects of each kind in each version ──▶ dynamic client and informers, scale client, RESTMapper,
// and the typed REST clients and informers where kruise-api has the type ──▶ standard output (JSON): what each was used for
//
// It ends with an error at the first unexpected result.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/openkruise/kruise-api/client/clientset/versioned"
	kruisescheme "github.com/openkruise/kruise-api/client/clientset/versioned/scheme"
	"github.com/openkruise/kruise-api/client/informers/externalversions"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	kjson "sigs.k8s.io/json"
)

const longest = 60 * time.Second

type work struct {
	APIVersion string                 `json:"api_version"`
	Kind       string                 `json:"kind"`
	Plural     string                 `json:"plural"`
	Namespace  string                 `json:"namespace"`
	Name       string                 `json:"name"`
	HasScale   bool                   `json:"has_scale"`
	IsCreated  bool                   `json:"is_created"`
	Mark       string                 `json:"mark"`
	SeenBy     string                 `json:"seen_by"`
	Document   map[string]interface{} `json:"document"`
}

type answer struct {
	APIVersion string `json:"api_version"`
	Kind       string `json:"kind"`
	Scaled     bool   `json:"scaled"`
	Typed      bool   `json:"typed"`
	// Fields of the object that the type of kruise-api does not have.
	Unknown []string `json:"unknown"`
}

type clients struct {
	config  *rest.Config
	dynamic dynamic.Interface
	mapper  meta.RESTMapper
	scales  scale.ScalesGetter
	kruise  *versioned.Clientset
}

func main() {
	var all []work
	if err := json.NewDecoder(os.Stdin).Decode(&all); err != nil {
		log.Fatal(err)
	}
	connected, err := connect()
	if err != nil {
		log.Fatal(err)
	}
	answers := []answer{}
	for _, item := range all {
		ctx, cancel := context.WithTimeout(context.Background(), longest)
		result, err := connected.do(ctx, item)
		cancel()
		if err != nil {
			log.Fatalf("%s %s: %v", item.APIVersion, item.Kind, err)
		}
		answers = append(answers, result)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		log.Fatal(err)
	}
}

func connect() (*clients, error) {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	groups, err := restmapper.GetAPIGroupResources(found)
	if err != nil {
		return nil, err
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	resolver := scale.NewDiscoveryScaleKindResolver(found)
	scales, err := scale.NewForConfig(config, mapper, dynamic.LegacyAPIPathResolverFunc, resolver)
	if err != nil {
		return nil, err
	}
	asked, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	kruise, err := versioned.NewForConfig(config)
	return &clients{config: config, dynamic: asked, mapper: mapper, scales: scales, kruise: kruise}, err
}

func (c *clients) do(ctx context.Context, item work) (answer, error) {
	result := answer{APIVersion: item.APIVersion, Kind: item.Kind, Scaled: item.HasScale}
	group, err := schema.ParseGroupVersion(item.APIVersion)
	if err != nil {
		return result, err
	}
	kind := group.WithKind(item.Kind)
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return result, err
	}
	if mapping.Resource != group.WithResource(item.Plural) {
		return result, fmt.Errorf("the RESTMapper has %v", mapping.Resource)
	}
	result.Typed = kruisescheme.Scheme.Recognizes(kind)
	if err := c.doDynamic(ctx, item, mapping.Resource); err != nil {
		return result, fmt.Errorf("dynamic client: %w", err)
	}
	if result.Typed {
		if result.Unknown, err = c.doTyped(ctx, item, kind, mapping.Resource); err != nil {
			return result, fmt.Errorf("typed client: %w", err)
		}
	}
	return result, nil
}

// ── dynamic client, informer, scale ──────────────────────────────────────────

func (c *clients) doDynamic(ctx context.Context, item work, resource schema.GroupVersionResource) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(c.dynamic, 0, item.Namespace, nil)
	informer := factory.ForResource(resource)
	stored := informer.Informer()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), stored.HasSynced) {
		return fmt.Errorf("the informer has not listed")
	}
	access := dynamic.ResourceInterface(c.dynamic.Resource(resource))
	if item.Namespace != "" {
		access = c.dynamic.Resource(resource).Namespace(item.Namespace)
	}
	if item.IsCreated {
		document := &unstructured.Unstructured{Object: item.Document}
		strict := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
		if _, err := access.Create(ctx, document, strict); err != nil {
			return fmt.Errorf("create: %w", err)
		}
	}
	patch := []byte(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, item.SeenBy, item.Mark))
	if _, err := access.Patch(ctx, item.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patch: %w", err)
	}
	if err := waitFor(ctx, stored, item, func(known *unstructured.Unstructured) bool {
		return known != nil && known.GetAnnotations()[item.SeenBy] == item.Mark
	}); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	if item.HasScale {
		if err := c.scale(ctx, item, resource.GroupResource()); err != nil {
			return fmt.Errorf("scale: %w", err)
		}
	}
	if err := writeStatus(ctx, access, item); err != nil {
		return fmt.Errorf("status: %w", err)
	}
	if !item.IsCreated {
		return nil
	}
	if err := access.Delete(ctx, item.Name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	return waitFor(ctx, stored, item, func(known *unstructured.Unstructured) bool { return known == nil })
}

func waitFor(ctx context.Context, stored cache.SharedIndexInformer, item work, claim func(*unstructured.Unstructured) bool) error {
	key := item.Name
	if item.Namespace != "" {
		key = item.Namespace + "/" + item.Name
	}
	return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		known, exists, err := stored.GetStore().GetByKey(key)
		if err != nil || !exists {
			return claim(nil), err
		}
		return claim(known.(*unstructured.Unstructured)), nil
	})
}

// scale does what the controller of HorizontalPodAutoscalers does.
func (c *clients) scale(ctx context.Context, item work, resource schema.GroupResource) error {
	access := c.scales.Scales(item.Namespace)
	read, err := access.Get(ctx, resource, item.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		read, err = access.Get(ctx, resource, item.Name, metav1.GetOptions{})
		return err == nil && read.Status.Selector != "", err
	}); err != nil {
		return fmt.Errorf("no selector: %w", err)
	}
	read.Spec.Replicas = 1
	read.ResourceVersion = "" // otherwise the update can conflict, because the status of the workload changes
	written, err := access.Update(ctx, resource, read, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	if written.Spec.Replicas != 1 {
		return fmt.Errorf("it has %d replicas", written.Spec.Replicas)
	}
	return nil
}

func writeStatus(ctx context.Context, access dynamic.ResourceInterface, item work) error {
	read, err := access.Get(ctx, item.Name, metav1.GetOptions{}, "status")
	if err != nil {
		return err
	}
	change := map[string]interface{}{
		"metadata": map[string]interface{}{"annotations": map[string]interface{}{item.SeenBy: "status"}},
	}
	if status, exists := read.Object["status"]; exists {
		change["status"] = status
	}
	patch, err := json.Marshal(change)
	if err != nil {
		return err
	}
	written, err := access.Patch(ctx, item.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return err
	}
	if written.GetAnnotations()[item.SeenBy] != item.Mark {
		return fmt.Errorf("its subresource has changed annotations too")
	}
	return nil
}

// ── typed clients of kruise-api ──────────────────────────────────────────────

func (c *clients) doTyped(ctx context.Context, item work, kind schema.GroupVersionKind, resource schema.GroupVersionResource) ([]string, error) {
	access, err := c.restClient(kind.GroupVersion())
	if err != nil {
		return nil, err
	}
	if item.IsCreated {
		object, err := typed(kind, item.Document)
		if err != nil {
			return nil, err
		}
		created, err := kruisescheme.Scheme.New(kind)
		if err != nil {
			return nil, err
		}
		post := access.Post().NamespaceIfScoped(item.Namespace, item.Namespace != "").Resource(item.Plural)
		if err := post.Body(object).Do(ctx).Into(created); err != nil {
			return nil, fmt.Errorf("create: %w", err)
		}
	}
	patch := []byte(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, item.SeenBy, item.Mark+"-typed"))
	merge := access.Patch(types.MergePatchType).NamespaceIfScoped(item.Namespace, item.Namespace != "")
	if err := merge.Resource(item.Plural).Name(item.Name).Body(patch).Do(ctx).Error(); err != nil {
		return nil, fmt.Errorf("patch: %w", err)
	}
	if err := c.seesTyped(ctx, item, resource); err != nil {
		return nil, err
	}
	get := access.Get().NamespaceIfScoped(item.Namespace, item.Namespace != "")
	raw, err := get.Resource(item.Plural).Name(item.Name).Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("get: %w", err)
	}
	unknown, err := unknownFields(kind, raw)
	if err != nil || !item.IsCreated {
		return unknown, err
	}
	remove := access.Delete().NamespaceIfScoped(item.Namespace, item.Namespace != "")
	return unknown, remove.Resource(item.Plural).Name(item.Name).Body(&metav1.DeleteOptions{}).Do(ctx).Error()
}

// seesTyped waits until the typed informer has the object as it was patched.
func (c *clients) seesTyped(ctx context.Context, item work, resource schema.GroupVersionResource) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	inNamespace := externalversions.WithNamespace(item.Namespace)
	factory := externalversions.NewSharedInformerFactoryWithOptions(c.kruise, 0, inNamespace)
	generic, err := factory.ForResource(resource)
	if err != nil {
		return err
	}
	stored := generic.Informer()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), stored.HasSynced) {
		return fmt.Errorf("the typed informer has not listed")
	}
	key := item.Name
	if item.Namespace != "" {
		key = item.Namespace + "/" + item.Name
	}
	return wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
		known, exists, err := stored.GetStore().GetByKey(key)
		if err != nil || !exists {
			return false, err
		}
		object, err := meta.Accessor(known)
		return err == nil && object.GetAnnotations()[item.SeenBy] == item.Mark+"-typed", err
	})
}

func (c *clients) restClient(group schema.GroupVersion) (rest.Interface, error) {
	switch group.String() {
	case "apps.kruise.io/v1alpha1":
		return c.kruise.AppsV1alpha1().RESTClient(), nil
	case "apps.kruise.io/v1beta1":
		return c.kruise.AppsV1beta1().RESTClient(), nil
	case "policy.kruise.io/v1alpha1":
		return c.kruise.PolicyV1alpha1().RESTClient(), nil
	}
	return nil, fmt.Errorf("kruise-api has no client for %s", group)
}

func typed(kind schema.GroupVersionKind, document map[string]interface{}) (runtime.Object, error) {
	object, err := kruisescheme.Scheme.New(kind)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	return object, json.Unmarshal(raw, object)
}

// unknownFields reads an object into its type, as typed clients do, and returns the fields that the type does not have.
func unknownFields(kind schema.GroupVersionKind, raw []byte) ([]string, error) {
	object, err := kruisescheme.Scheme.New(kind)
	if err != nil {
		return nil, err
	}
	strict, err := kjson.UnmarshalStrict(raw, object)
	unknown := []string{}
	for _, field := range strict {
		unknown = append(unknown, field.Error())
	}
	return unknown, err
}
