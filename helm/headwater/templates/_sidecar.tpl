{{/* A worker in the pod of its rank: they share memory through a folder of the pod, which every Pod Security level allows. */}}

{{/* Whether the cluster ends such a worker by itself when the rank has ended. */}}
{{- define "headwater.sidecar.native" -}}
{{- if semverCompare ">=1.29-0" .Capabilities.KubeVersion.Version -}}
true
{{- end -}}
{{- end -}}

{{/* The container. */}}
{{- define "headwater.sidecar.container" -}}
{{- $root := . -}}
{{- $sidecar := $root.Values.sharedMemory.sidecar -}}
{{- $native := include "headwater.sidecar.native" $root -}}
{{- $mounts := dict "root" $root "tier" dict "component" "receiver" "file" "augment.toml" "data" $root.Values.data.mountInAugment "links" true -}}
- name: augment
  image: {{ include "headwater.image" (list $root "augment" (default $root.Values.augment.image $sidecar.image)) }}
  imagePullPolicy: {{ $root.Values.image.pullPolicy }}
  {{- if $native }}
  restartPolicy: Always
  {{- end }}
  args: [augment]
  env:
    - name: HEADWATER_CONFIG
      value: /etc/headwater/headwater.toml
    {{- /* Only its rank calls it, and both have the pod's address. */}}
    - name: HEADWATER_AUGMENT__LISTEN
      value: 127.0.0.1:{{ $root.Values.augment.port }}
    - name: HEADWATER_TELEMETRY__METRICS_LISTEN
      value: 0.0.0.0:{{ $sidecar.metricsPort }}
    {{- include "headwater.env.field" (list $root "augment" "advertise" "metadata.name") | nindent 4 }}
    {{- include "headwater.env.threads" (list $root $sidecar.resources) | nindent 4 }}
  ports:
    - {name: worker-metrics, containerPort: {{ $sidecar.metricsPort }}}
  {{- if $native }}
  startupProbe:
    httpGet: {path: /readyz, port: worker-metrics}
    periodSeconds: 2
    failureThreshold: {{ div (add $root.Values.augment.startupSeconds 1) 2 }}
  livenessProbe:
    httpGet: {path: /healthz, port: worker-metrics}
    periodSeconds: 20
    failureThreshold: 6
    timeoutSeconds: 5
  {{- else }}
  {{- /* Both ask the rank: a pod here ends when all of its containers have, so this one is asked to end when its rank, which
         may be started later, has ended. */}}
  startupProbe:
    httpGet: {path: /healthz, port: {{ $root.Values.monitoring.port }}}
    periodSeconds: 2
    failureThreshold: 300
  livenessProbe:
    httpGet: {path: /healthz, port: {{ $root.Values.monitoring.port }}}
    periodSeconds: 5
    failureThreshold: 6
    timeoutSeconds: 5
  {{- end }}
  resources:
    {{- toYaml $sidecar.resources | nindent 4 }}
  securityContext:
    {{- include "headwater.container.security" $root | nindent 4 }}
  volumeMounts:
    {{- include "headwater.mounts" $mounts | nindent 4 }}
{{- end -}}
