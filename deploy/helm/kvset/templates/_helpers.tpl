{{- /* What every object carries, and what selects the pods. */ -}}
{{- define "kvset.labels" -}}
app.kubernetes.io/name: kvset
{{- end -}}

{{- /* The configuration: the values' own, or the file that comes with the chart. */ -}}
{{- define "kvset.config" -}}
{{- .Values.config | default (.Files.Get "kvset.toml") -}}
{{- end -}}

{{- /* The name carries a hash of the content, so that a changed setting rolls the pods. */ -}}
{{- define "kvset.configName" -}}
kvset-config-{{ include "kvset.config" . | sha256sum | trunc 10 }}
{{- end -}}
