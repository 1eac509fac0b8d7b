{{- /* The image of a program: (list . "manager" "kruise-manager"). Without a registry nothing could be pulled.
OpenKruise's image would not start with the roles of this chart; values of OpenKruise's chart may name it. */}}
{{- define "pykruise.imageOf" -}}
{{- $top := index . 0 }}
{{- $image := (index $top.Values (index . 1)).image }}
{{- $registry := $top.Values.image.registry }}
{{- if not (or $image.repository $registry) }}
{{- fail (printf "no image of this version is published: build the images (make image), push them to a registry that your nodes can pull from, and set image.registry=registry.example.com/team (or %s.image.repository)" (index . 1)) }}
{{- end }}
{{- $repository := $image.repository | default (printf "%s/%s" $registry (index . 2)) }}
{{- $tag := $image.tag | default (printf "v%s" $top.Chart.AppVersion) }}
{{- /* In a mirror, the image has another path. While this chart's version is below 1, the tag v1.x is one of OpenKruise. */}}
{{- $isMirrored := and (hasSuffix "/kruise-manager" $repository) (regexMatch "^v1[.][0-9]+[.]" $tag) (hasPrefix "0." $top.Chart.AppVersion) }}
{{- if or $isMirrored (hasSuffix "openkruise/kruise-manager" $repository) }}
{{- fail (printf "%s:%s is an image of OpenKruise, which does not work with the roles of this chart: set %s.image.repository and %s.image.tag to empty values, and image.registry to the registry of pykruise's images (docs/migration.md)" $repository $tag (index . 1) (index . 1)) }}
{{- end }}
{{- $repository }}:{{ $tag }}
{{- end }}
{{- define "pykruise.image" -}}
{{ include "pykruise.imageOf" (list . "manager" "kruise-manager") }}
{{- end }}
