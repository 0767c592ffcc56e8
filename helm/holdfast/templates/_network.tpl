{{/* Egress of all pods: DNS, the store, traces. Takes the root. */}}
{{- define "holdfast.commonEgress" -}}
{{- $policy := .Values.networkPolicy -}}
- to:
    {{- toYaml $policy.dnsTo | nindent 4 }}
  ports:
    - { port: 53, protocol: UDP }
    - { port: 53, protocol: TCP }
- ports:
    {{- range $policy.storePorts }}
    - { port: {{ . }}, protocol: TCP }
    {{- end }}
  {{- if or .Values.evaluation.postgres.enabled .Values.evaluation.valkey.enabled }}
  to:
    - podSelector:
        matchLabels:
          {{- include "holdfast.selector" (list . "evaluation") | nindent 10 }}
  {{- else if $policy.storeTo }}
  to:
    {{- toYaml $policy.storeTo | nindent 4 }}
  {{- end }}
{{- if $policy.otlpTo }}
- ports:
    {{- range $policy.otlpPorts }}
    - { port: {{ . }}, protocol: TCP }
    {{- end }}
  to:
    {{- toYaml $policy.otlpTo | nindent 4 }}
{{- end }}
{{- end -}}

{{/* Peers that may scrape all pods. */}}
{{- define "holdfast.scrapeIngress" -}}
- ports:
    - { port: ops, protocol: TCP }
  {{- with .Values.networkPolicy.scrapeFrom }}
  from:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* Head of a NetworkPolicy. Takes (list root component). */}}
{{- define "holdfast.policyHead" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "holdfast.metadata" (dict "root" (first .) "component" (last .) "name" (include "holdfast.name" .)) | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "holdfast.selector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
{{- end -}}
