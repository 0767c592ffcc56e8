{{/* A store with one pod and no backup. Takes (dict root name image storage port uid env args mount socket probe). */}}
{{- define "holdfast.evaluationStore" -}}
{{- $name := include "holdfast.name" (list .root (printf "evaluation-%s" .name)) -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "holdfast.metadata" (dict "root" .root "component" "evaluation" "name" $name) | nindent 2 }}
spec:
  selector:
    {{- include "holdfast.selector" (list .root "evaluation") | nindent 4 }}
  ports:
    - name: {{ .name }}
      port: {{ .port }}
      targetPort: {{ .name }}
      protocol: TCP
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  {{- include "holdfast.metadata" (dict "root" .root "component" "evaluation" "name" $name "annotations" (dict "holdfast/evaluation-only" "one pod, no backup, no failover")) | nindent 2 }}
spec:
  serviceName: {{ $name }}
  replicas: 1
  selector:
    matchLabels:
      {{- include "holdfast.selector" (list .root "evaluation") | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "holdfast.selector" (list .root "evaluation") | nindent 8 }}
    spec:
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: 60
      securityContext:
        runAsNonRoot: true
        runAsUser: {{ .uid }}
        runAsGroup: {{ .uid }}
        fsGroup: {{ .uid }}
        seccompProfile: { type: RuntimeDefault }
      containers:
        - name: {{ .name }}
          image: {{ .image }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          {{- with .args }}
          args:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          env:
            {{- .env | nindent 12 }}
          ports:
            - name: {{ .name }}
              containerPort: {{ .port }}
              protocol: TCP
          securityContext:
            {{- toYaml .root.Values.pod.containerSecurityContext | nindent 12 }}
          resources:
            requests: { cpu: 100m, memory: 256Mi }
            limits: { memory: 512Mi }
          startupProbe:
            exec: { command: {{ toJson .probe }} }
            periodSeconds: 2
            failureThreshold: 60
            timeoutSeconds: 5
          readinessProbe:
            exec: { command: {{ toJson .probe }} }
            periodSeconds: 5
            timeoutSeconds: 5
          livenessProbe:
            exec: { command: {{ toJson .probe }} }
            periodSeconds: 20
            failureThreshold: 6
            timeoutSeconds: 5
          volumeMounts:
            - name: data
              mountPath: {{ .mount }}
            - name: tmp
              mountPath: /tmp
            {{- with .socket }}
            - name: socket
              mountPath: {{ . }}
            {{- end }}
      volumes:
        - name: tmp
          emptyDir: {}
        {{- if .socket }}
        - name: socket
          emptyDir: {}
        {{- end }}
  # The password is deleted with the release, so nobody could open a volume that stayed.
  persistentVolumeClaimRetentionPolicy: { whenDeleted: Delete, whenScaled: Retain }
  volumeClaimTemplates:
    - metadata:
        name: data
      spec:
        accessModes: [ReadWriteOnce]
        resources:
          requests: { storage: {{ .storage }} }
{{- end -}}
