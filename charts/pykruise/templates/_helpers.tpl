{{- define "pykruise.image" -}}
{{ .Values.manager.image.repository }}:{{ .Values.manager.image.tag | default (printf "v%s" .Chart.AppVersion) }}
{{- end }}
