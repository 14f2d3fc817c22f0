{{- /* What selects the pods. Objects carry it too: a further release of a namespace selects none of another's. */ -}}
{{- define "kvset.labels" -}}
app.kubernetes.io/name: {{ .Values.name }}
{{- end -}}

{{- /* Namespace, labels and annotations of an object: `list $ LABELS ANNOTATIONS`, its own and those of all objects. */ -}}
{{- define "kvset.metadata" -}}
{{- $values := (index . 0).Values -}}
namespace: {{ (index . 0).Release.Namespace }}
labels:
  {{- $own := include "kvset.labels" (index . 0) | fromYaml }}
  {{- mergeOverwrite (dict) $values.commonLabels (index . 1) $own | toYaml | nindent 2 }}
{{- with mergeOverwrite (dict) $values.commonAnnotations (index . 2) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* The image: by digest where one is given, which no tag can move. */ -}}
{{- define "kvset.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The configuration: the values' own, or the file that comes with the chart. */ -}}
{{- define "kvset.config" -}}
{{- .Values.config | default (.Files.Get "kvset.toml") -}}
{{- end -}}

{{- /* The name carries a hash of the content, so that a changed setting rolls the pods. */ -}}
{{- define "kvset.configName" -}}
{{ .Values.name }}-config-{{ include "kvset.config" . | sha256sum | trunc 10 }}
{{- end -}}
