{{/* One variable. Takes (list name value). Whole numbers stay whole, although Helm reads them as floats. */}}
{{- define "holdfast.variable" -}}
{{- $value := last . -}}
- name: {{ first . }}
  value: {{ if kindIs "float64" $value }}{{ $value | int64 | toString | quote }}{{ else }}{{ $value | toString | quote }}{{ end }}
{{- end -}}

{{/* One variable from a Secret. Takes (list name secret key). */}}
{{- define "holdfast.secretVariable" -}}
- name: {{ index . 0 }}
  valueFrom:
    secretKeyRef:
      name: {{ index . 1 }}
      key: {{ index . 2 }}
{{- end -}}

{{/* Settings that every service reads. Takes (list root component). */}}
{{- define "holdfast.commonSettings" -}}
{{- $root := first . -}}
{{- $own := index $root.Values (last .) -}}
{{- $store := include "holdfast.storeSecret" $root | fromJson -}}
{{ include "holdfast.secretVariable" (list "HOLDFAST_STORE" $store.name $store.key) }}
{{- with $store.listenKey }}
{{ include "holdfast.secretVariable" (list "HOLDFAST_STORE_LISTEN_URL" $store.name .) }}
{{- end }}
{{ include "holdfast.variable" (list "HOLDFAST_HOST" (ternary "::" "0.0.0.0" $root.Values.ipv6)) }}
{{ include "holdfast.variable" (list "HOLDFAST_OPS_PORT" 9464) }}
{{ include "holdfast.variable" (list "HOLDFAST_DRAIN_MS" (mul $own.drainSeconds 1000)) }}
{{ include "holdfast.variable" (list "HOLDFAST_LOG_LEVEL" $root.Values.logLevel) }}
{{- with $root.Values.workflowPrefix }}
{{ include "holdfast.variable" (list "HOLDFAST_WORKFLOW_PREFIX" .) }}
{{- end }}
{{- range $name, $value := $own.settings }}
{{ include "holdfast.variable" (list $name $value) }}
{{- end }}
{{- end -}}

{{/* How workers and connectors authenticate each other. */}}
{{- define "holdfast.rpcSettings" -}}
{{ include "holdfast.secretVariable" (list "HOLDFAST_CONNECTOR_TOKEN" (include "holdfast.connectorSecret" .) .Values.connector.token.key) }}
{{- if .Values.connector.tls.existingSecret }}
{{ include "holdfast.variable" (list "HOLDFAST_CONNECTOR_TLS_CERT" "/etc/holdfast/connector-tls/tls.crt") }}
{{ include "holdfast.variable" (list "HOLDFAST_CONNECTOR_TLS_KEY" "/etc/holdfast/connector-tls/tls.key") }}
{{ include "holdfast.variable" (list "HOLDFAST_CONNECTOR_TLS_CA" "/etc/holdfast/connector-tls/ca.crt") }}
{{- end }}
{{- end -}}

{{- define "holdfast.rpcMounts" -}}
{{- if .Values.connector.tls.existingSecret }}
- name: connector-tls
  mountPath: /etc/holdfast/connector-tls
  readOnly: true
{{- end }}
{{- end -}}

{{- define "holdfast.rpcVolumes" -}}
{{- with .Values.connector.tls.existingSecret }}
- name: connector-tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- end -}}
