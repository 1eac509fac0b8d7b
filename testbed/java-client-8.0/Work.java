import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;
import io.fabric8.kubernetes.api.model.GenericKubernetesResource;
import io.fabric8.kubernetes.api.model.GenericKubernetesResourceList;
import io.fabric8.kubernetes.api.model.autoscaling.v1.Scale;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.dsl.NonNamespaceOperation;
import io.fabric8.kubernetes.client.dsl.Resource;
import io.fabric8.kubernetes.client.dsl.base.PatchContext;
import io.fabric8.kubernetes.client.dsl.base.PatchType;
import io.fabric8.kubernetes.client.dsl.base.ResourceDefinitionContext;
import io.fabric8.kubernetes.client.informers.SharedIndexInformer;
import java.util.Map;
import java.util.function.BooleanSupplier;

/**
 * Uses the Java client of Kubernetes (fabric8) as operators in Java do.
 *
 * <p>standard input (JSON): objects of each kind in each version ──▶ list, create, informer, patch, scale, status,
 * delete ──▶ standard output: the number of objects. It ends with an error at the first unexpected result.
 */
public final class Work {
  private static final long LONGEST_MS = 60_000;
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] arguments) throws Exception {
    int count = 0;
    try (KubernetesClient client = new KubernetesClientBuilder().build()) {
      for (JsonNode item : JSON.readTree(System.in)) {
        try {
          new Work(client, item).all();
        } catch (RuntimeException error) {
          throw new IllegalStateException(item.get("api_version") + " " + item.get("kind"), error);
        }
        count++;
      }
    }
    System.out.println(count);
  }

  private final JsonNode item;
  private final String name;
  private final NonNamespaceOperation<
          GenericKubernetesResource, GenericKubernetesResourceList, Resource<GenericKubernetesResource>>
      objects;

  private Work(KubernetesClient client, JsonNode item) {
    this.item = item;
    this.name = item.get("name").asText();
    String[] group = item.get("api_version").asText().split("/");
    String namespace = item.get("namespace").asText();
    var context =
        new ResourceDefinitionContext.Builder()
            .withGroup(group[0])
            .withVersion(group[1])
            .withKind(item.get("kind").asText())
            .withPlural(item.get("plural").asText())
            .withNamespaced(!namespace.isEmpty())
            .build();
    var all = client.genericKubernetesResources(context);
    this.objects = namespace.isEmpty() ? all : all.inNamespace(namespace);
  }

  private void all() throws Exception {
    boolean isCreated = item.get("is_created").asBoolean();
    if (isCreated) {
      var document = JSON.treeToValue(item.get("document"), GenericKubernetesResource.class);
      document.setApiVersion(item.get("api_version").asText());
      document.setKind(item.get("kind").asText());
      objects.resource(document).create();
    }
    require(objects.list().getItems().stream().anyMatch(this::isIt), "the list has it");
    try (SharedIndexInformer<GenericKubernetesResource> informer = objects.inform()) {
      patch(objects.withName(name), item.get("mark").asText(), null);
      until(() -> informer.getStore().list().stream().anyMatch(this::isMarked), "the informer sees the patch");
    }
    if (item.get("has_scale").asBoolean()) {
      objects.withName(name).scale(1);
      Scale scale = objects.withName(name).scale();
      require(scale.getSpec().getReplicas() == 1, "it is scaled");
    }
    Object status = objects.withName(name).require().getAdditionalProperties().get("status");
    patchStatus(status);
    require(isMarked(objects.withName(name).require()), "the status writes the status alone");
    if (isCreated) {
      objects.withName(name).delete();
    }
  }

  private void patch(Resource<GenericKubernetesResource> object, String mark, Object status) throws Exception {
    object.patch(PatchContext.of(PatchType.JSON_MERGE), change(mark, status));
  }

  private void patchStatus(Object status) throws Exception {
    objects
        .withName(name)
        .subresource("status")
        .patch(PatchContext.of(PatchType.JSON_MERGE), change("status", status));
  }

  private String change(String mark, Object status) throws Exception {
    var metadata = Map.of("annotations", Map.of(item.get("seen_by").asText(), mark));
    return JSON.writeValueAsString(
        status == null ? Map.of("metadata", metadata) : Map.of("metadata", metadata, "status", status));
  }

  private boolean isIt(GenericKubernetesResource object) {
    return object.getMetadata().getName().equals(name);
  }

  private boolean isMarked(GenericKubernetesResource object) {
    var annotations = object.getMetadata().getAnnotations();
    String mark = annotations == null ? null : annotations.get(item.get("seen_by").asText());
    return isIt(object) && item.get("mark").asText().equals(mark);
  }

  private static void until(BooleanSupplier claim, String what) throws InterruptedException {
    long end = System.currentTimeMillis() + LONGEST_MS;
    while (!claim.getAsBoolean()) {
      require(System.currentTimeMillis() < end, what);
      Thread.sleep(20);
    }
  }

  private static void require(boolean claim, String what) {
    if (!claim) {
      throw new IllegalStateException(what);
    }
  }
}
