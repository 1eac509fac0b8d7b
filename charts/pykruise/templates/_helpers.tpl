{{- /* The image of a program: (list . "manager" "kruise-manager"). Without a registry nothing could be pulled. */}}
{{- define "pykruise.imageOf" -}}
{{- $top := index . 0 }}
{{- $image := (index $top.Values (index . 1)).image }}
{{- $registry := $top.Values.image.registry }}
{{- if not (or $image.repository $registry) }}
{{- fail (printf "no image of this version is published: build the images (make image), push them to a registry that your nodes can pull from, and set image.registry=registry.example.com/team (or %s.image.repository)" (index . 1)) }}
{{- end }}
{{- $image.repository | default (printf "%s/%s" $registry (index . 2)) }}:{{ $image.tag | default (printf "v%s" $top.Chart.AppVersion) }}
{{- end }}
{{- define "pykruise.image" -}}
{{ include "pykruise.imageOf" (list . "manager" "kruise-manager") }}
{{- end }}
