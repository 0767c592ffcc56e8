{{- define "holdfast.chart" -}}
{{- printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough that the longest derived name, with -evaluation-postgres, is still valid. A longer name ends in its hash, because two may start alike. */}}
{{- define "holdfast.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := default (ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name)) .Values.fullnameOverride -}}
{{- if gt (len $full) 40 -}}
{{- printf "%s-%s" ($full | trunc 31 | trimSuffix "-") (sha256sum $full | trunc 8) -}}
{{- else -}}
{{- $full | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Name of the objects of a component. Takes (list root component). */}}
{{- define "holdfast.name" -}}
{{- printf "%s-%s" (include "holdfast.fullname" (first .)) (last .) -}}
{{- end -}}

{{/* Selects the pods of a component; never changes. */}}
{{- define "holdfast.selector" -}}
{{- $root := first . -}}
app.kubernetes.io/name: {{ default $root.Chart.Name $root.Values.nameOverride | trunc 63 }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
{{- with last . }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{/* Takes (list root component); the component is empty for objects of the whole release. */}}
{{- define "holdfast.labels" -}}
{{- $root := first . -}}
{{ include "holdfast.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: holdfast
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ include "holdfast.chart" $root }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Metadata of an object. Takes (dict root component name annotations labels). */}}
{{- define "holdfast.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "holdfast.labels" (list .root .component) | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $annotations := mergeOverwrite (dict) .root.Values.commonAnnotations (default (dict) .annotations) }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "holdfast.serviceAccountName" -}}
{{- $root := first . -}}
{{- $component := last . -}}
{{- $account := (index $root.Values $component).serviceAccount -}}
{{- if $account.name -}}{{ $account.name }}
{{- else if $account.create -}}{{ include "holdfast.name" . }}
{{- else -}}default
{{- end -}}
{{- end -}}

{{/* Reference of an image. Takes (list root image). */}}
{{- define "holdfast.image" -}}
{{- $root := first . -}}
{{- $image := last . -}}
{{- with $root.Values.image.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- $image.repository -}}
{{- if $image.digest -}}@{{ $image.digest }}
{{- else -}}:{{ coalesce $image.tag $root.Values.image.tag $root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* Location of the store URL: name of the Secret, key of the URL, key of the URL for LISTEN or nothing. */}}
{{- define "holdfast.storeSecret" -}}
{{- $store := .Values.store -}}
{{- if $store.existingSecret -}}
{{- dict "name" $store.existingSecret "key" $store.existingSecretKey "listenKey" $store.existingSecretListenKey | toJson -}}
{{- else -}}
{{- dict "name" (include "holdfast.name" (list . "store")) "key" "url" "listenKey" (ternary "listen-url" "" (ne $store.listenUrl "")) | toJson -}}
{{- end -}}
{{- end -}}

{{- define "holdfast.connectorSecret" -}}
{{- default (include "holdfast.name" (list . "connector-token")) .Values.connector.token.existingSecret -}}
{{- end -}}

{{- define "holdfast.callsUpstreams" -}}
{{- if or (eq .Values.worker.upstreams "always") (and (eq .Values.worker.upstreams "auto") .Values.connector.enabled) -}}true{{- end -}}
{{- end -}}

{{/* URL at which hosts reach the gateways, or nothing. */}}
{{- define "holdfast.publicUrl" -}}
{{- if .Values.publicUrl -}}{{ .Values.publicUrl }}
{{- else if and .Values.ingress.enabled .Values.ingress.host -}}
{{ ternary "https" "http" (ne .Values.ingress.tlsSecret "") }}://{{ .Values.ingress.host }}
{{- else if and .Values.httpRoute.enabled .Values.httpRoute.hostnames -}}
https://{{ first .Values.httpRoute.hostnames }}
{{- end -}}
{{- end -}}

{{/* A secret that is created once and looked up at each upgrade. Takes (list root name key). */}}
{{- define "holdfast.kept" -}}
{{- $root := index . 0 -}}
{{- $found := lookup "v1" "Secret" $root.Release.Namespace (index . 1) -}}
{{- $kept := dig "data" (index . 2) "" $found -}}
{{- if $kept -}}{{ $kept | b64dec }}{{- else -}}{{ randAlphaNum 48 }}{{- end -}}
{{- end -}}
