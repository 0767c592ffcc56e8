{{/* The pod settings of a component: pod, overridden key by key by its own. Takes (list root component). */}}
{{- define "holdfast.pod" -}}
{{- $root := first . -}}
{{- mergeOverwrite (deepCopy $root.Values.pod) (index $root.Values (last .)).pod | toJson -}}
{{- end -}}

{{/* Head of a Deployment up to its pod's spec. Takes (dict root component checksums). */}}
{{- define "holdfast.deploymentHead" -}}
{{- $own := index .root.Values .component -}}
{{- $pod := include "holdfast.pod" (list .root .component) | fromJson -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "holdfast.metadata" (dict "root" .root "component" .component "name" (include "holdfast.name" (list .root .component)) "annotations" $own.annotations) | nindent 2 }}
spec:
  {{- if not .scaled }}
  replicas: {{ $own.replicas }}
  {{- end }}
  revisionHistoryLimit: 5
  strategy:
    {{- toYaml $own.strategy | nindent 4 }}
  selector:
    matchLabels:
      {{- include "holdfast.selector" (list .root .component) | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "holdfast.selector" (list .root .component) | nindent 8 }}
        app.kubernetes.io/part-of: holdfast
        {{- range $name, $value := mergeOverwrite (dict) .root.Values.commonLabels $pod.labels }}
        {{ $name }}: {{ $value | quote }}
        {{- end }}
      {{- /* /tmp holds nothing worth keeping, so it must not prevent an autoscaler from removing the node. */}}
      {{- $annotations := dict "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes" "tmp" }}
      {{- $_ := mergeOverwrite $annotations .root.Values.commonAnnotations (default (dict) .checksums) }}
      {{- if .root.Values.metrics.annotations }}
      {{- $_ := mergeOverwrite $annotations (dict "prometheus.io/scrape" "true" "prometheus.io/port" "9464" "prometheus.io/path" "/metrics") }}
      {{- end }}
      {{- $_ := mergeOverwrite $annotations $pod.annotations }}
      annotations:
        {{- toYaml $annotations | nindent 8 }}
    spec:
      serviceAccountName: {{ include "holdfast.serviceAccountName" (list .root .component) }}
      automountServiceAccountToken: false
      # A Service called holdfast would set HOLDFAST_PORT=tcp://… in every pod beside it.
      enableServiceLinks: false
      # The sleep, the drain, the ten seconds that a service allows for its stop after the drain, and a margin.
      terminationGracePeriodSeconds: {{ add $own.preStopSeconds $own.drainSeconds 15 }}
      securityContext:
        {{- toYaml $pod.securityContext | nindent 8 }}
      {{- with .root.Values.image.pullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ . }}
        {{- end }}
      {{- end }}
      {{- with $pod.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $pod.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $pod.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $pod.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- if $pod.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- toYaml $pod.topologySpreadConstraints | nindent 8 }}
      {{- else if $pod.spreadOver }}
      topologySpreadConstraints:
        {{- range $pod.spreadOver }}
        - maxSkew: 1
          topologyKey: {{ . }}
          whenUnsatisfiable: ScheduleAnyway
          # Counts the pods of one rollout only: otherwise old pods count too, and new pods crowd on one node.
          matchLabelKeys: [pod-template-hash]
          labelSelector:
            matchLabels:
              {{- include "holdfast.selector" (list $.root $.component) | nindent 14 }}
        {{- end }}
      {{- end }}
      {{- with $own.initContainers }}
      initContainers:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end -}}

{{/* Container of a service up to its variables. Takes (dict root component ports). */}}
{{- define "holdfast.containerHead" -}}
{{- $own := index .root.Values .component -}}
{{- $pod := include "holdfast.pod" (list .root .component) | fromJson -}}
name: {{ .component }}
image: {{ include "holdfast.image" (list .root $own.image) }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
args: [node, apps/{{ .component }}/dist/main.js]
ports:
  {{- with .ports }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  - name: ops
    containerPort: 9464
    protocol: TCP
securityContext:
  {{- toYaml $pod.containerSecurityContext | nindent 2 }}
resources:
  {{- toYaml $own.resources | nindent 2 }}
startupProbe:
  httpGet: { path: /healthz, port: ops }
  {{- toYaml $pod.startupProbe | nindent 2 }}
readinessProbe:
  httpGet: { path: /readyz, port: ops }
  {{- toYaml $pod.readinessProbe | nindent 2 }}
livenessProbe:
  httpGet: { path: /healthz, port: ops }
  {{- toYaml $pod.livenessProbe | nindent 2 }}
{{- with $own.preStopSeconds }}
lifecycle:
  preStop:
    sleep:
      seconds: {{ . }}
{{- end }}
{{- end -}}

{{/* Mounts and volumes of every service; the root of the file system is read-only. */}}
{{- define "holdfast.mounts" -}}
- name: tmp
  mountPath: /tmp
{{- with (index (first .).Values (last .)).extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "holdfast.volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: {{ (include "holdfast.pod" . | fromJson).tmpSize }}
{{- with (index (first .).Values (last .)).extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "holdfast.serviceAccount" -}}
{{- $own := index .root.Values .component -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "holdfast.metadata" (dict "root" .root "component" .component "name" (include "holdfast.serviceAccountName" (list .root .component)) "annotations" $own.serviceAccount.annotations) | nindent 2 }}
automountServiceAccountToken: false
{{- end -}}

{{- define "holdfast.pdb" -}}
{{- $own := index .root.Values .component -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "holdfast.metadata" (dict "root" .root "component" .component "name" (include "holdfast.name" (list .root .component))) | nindent 2 }}
spec:
  maxUnavailable: {{ $own.pdb.maxUnavailable }}
  # A pod that is not ready serves no host: it must not block the drain of a node.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "holdfast.selector" (list .root .component) | nindent 6 }}
{{- end -}}
