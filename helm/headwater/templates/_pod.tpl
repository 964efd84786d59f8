{{/* Parts of pods that all tiers have. */}}

{{- define "headwater.container.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Head of a pod's spec: dict root, tier (its values), pool (values of its flavour, or the same),
     component. A pod has a token of the API server only where it asks the server for something. */}}
{{- define "headwater.pod.head" -}}
{{- $root := .root -}}
{{- $ids := $root.Values.podSecurity -}}
serviceAccountName: {{ include "headwater.serviceAccount" $root }}
automountServiceAccountToken: {{ and (eq $root.Values.discovery "endpointSlices") (ne .component "storage") }}
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: {{ $ids.runAsUser }}
  runAsGroup: {{ $ids.runAsGroup }}
  fsGroup: {{ $ids.fsGroup }}
  {{- /* Else every file of a volume is given to the group again at each start. */}}
  fsGroupChangePolicy: OnRootMismatch
  {{- with $ids.supplementalGroups }}
  supplementalGroups: {{ toJson . }}
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- if or .tier.priorityClassName $root.Values.priorityClass.create }}
priorityClassName: {{ default (include "headwater.priorityClass" $root) .tier.priorityClassName }}
{{- end }}
{{- with .pool.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- if .tier.hostNetwork }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- with .pool.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .pool.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .pool.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* list ROOT COMPONENT */}}
{{- define "headwater.pod.spread" -}}
{{- $root := index . 0 -}}
{{- with $root.Values.topologySpread }}
{{- if .enabled }}
topologySpreadConstraints:
  - maxSkew: {{ .maxSkew }}
    topologyKey: {{ .topologyKey }}
    whenUnsatisfiable: {{ .whenUnsatisfiable }}
    labelSelector:
      matchLabels:
        {{- include "headwater.selector" $ | nindent 8 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Labels and annotations of a tier's pods: list ROOT COMPONENT TIER-VALUES FLAVOUR. */}}
{{- define "headwater.pod.metadata" -}}
{{- $root := index . 0 -}}
{{- $tier := index . 2 -}}
labels:
  {{- include "headwater.selector" (list $root (index . 1)) | nindent 2 }}
  {{- with index . 3 }}
  headwater/flavour: {{ . }}
  {{- end }}
  {{- with $tier.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  checksum/config: {{ include "headwater.config" (list $root (index . 1)) | sha256sum }}
  {{- with $tier.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* A variable from a field of the pod, unless the key is configured: list ROOT SECTION KEY FIELD. */}}
{{- define "headwater.env.field" -}}
{{- if not (include "headwater.configured" .) -}}
- name: HEADWATER_{{ index . 1 | upper }}__{{ index . 2 | upper }}
  valueFrom:
    fieldRef:
      fieldPath: {{ index . 3 }}
{{- end }}
{{- end -}}

{{/* Threads of a worker, list ROOT RESOURCES. The program counts the cores of its CPU limit; without one it would count all
     of the node and keep buffers for each. */}}
{{- define "headwater.env.threads" -}}
{{- $resources := index . 1 -}}
{{- $configured := hasKey (default dict (index . 0).Values.config.augment) "threads" -}}
{{- if not (or $configured (hasKey (default dict $resources.limits) "cpu") (not (hasKey (default dict $resources.requests) "cpu"))) -}}
- name: HEADWATER_AUGMENT__THREADS
  valueFrom:
    resourceFieldRef: {resource: requests.cpu}
{{- end }}
{{- end -}}

{{/* /readyz answers 503 until a tier serves and again while it drains; /healthz answers as long as the process
     lives, so that a drain may take its time. */}}
{{- define "headwater.probes" -}}
startupProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 2
  failureThreshold: {{ div (add . 1) 2 }}
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 5
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 20
  failureThreshold: 6
  timeoutSeconds: 5
{{- end -}}

{{/* Resources with devices: dict root, resources, gpus, rdma (whether RDMA devices are for this pod). */}}
{{- define "headwater.resources" -}}
{{- $resources := deepCopy .resources -}}
{{- $devices := dict -}}
{{- if .gpus -}}
{{- $_ := set $devices "nvidia.com/gpu" .gpus -}}
{{- end -}}
{{- $rdma := .root.Values.rdma -}}
{{- if and .rdma $rdma.enabled -}}
{{- $_ := set $devices $rdma.resource $rdma.count -}}
{{- with $rdma.hugepages.amount -}}
{{- $_ := set $devices (printf "hugepages-%s" $rdma.hugepages.size) . -}}
{{- end -}}
{{- end -}}
{{- range $kind := list "requests" "limits" -}}
{{- $_ := set $resources $kind (merge (deepCopy $devices) (default dict (index $resources $kind))) -}}
{{- end -}}
{{- toYaml $resources -}}
{{- end -}}

{{/* Mounts of a container: dict root, tier, component, data, links (whether links end here), file (of the volume `config`,
     where it is not the component's). */}}
{{- define "headwater.mounts" -}}
{{- $values := .root.Values -}}
- {name: config, mountPath: /etc/headwater/headwater.toml, subPath: {{ default "headwater.toml" .file }}, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- if $values.security.token.enabled }}
- {name: token, mountPath: /etc/headwater/token, readOnly: true}
{{- end }}
{{- if $values.security.tls.enabled }}
- {name: tls, mountPath: /etc/headwater/tls, readOnly: true}
{{- end }}
{{- if and .data $values.data.volume }}
- {name: data, mountPath: {{ $values.data.mountPath }}, readOnly: true}
{{- end }}
{{- if .links }}
{{- if include "headwater.shares" (list .root .component) }}
- {name: sockets, mountPath: /run/headwater}
{{- end }}
{{- if and $values.rdma.enabled $values.rdma.hugepages.amount }}
- {name: hugepages, mountPath: /dev/hugepages}
{{- end }}
{{- end }}
{{- with .tier.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The volumes behind them: the same, and component (whose file of the ConfigMap it is). */}}
{{- define "headwater.volumes" -}}
{{- $values := .root.Values -}}
- name: config
  configMap:
    name: {{ include "headwater.fullname" .root }}
    items:
      - {key: {{ .component }}.toml, path: headwater.toml}
      {{- if include "headwater.sidecar" (list .root .component) }}
      - {key: augment.toml, path: augment.toml}
      {{- end }}
- name: tmp
  emptyDir: {}
{{- if $values.security.token.enabled }}
- name: token
  secret:
    secretName: {{ include "headwater.tokenSecret" .root }}
    defaultMode: 0440
    items:
      - {key: {{ $values.security.token.key }}, path: token}
{{- end }}
{{- if $values.security.tls.enabled }}
- name: tls
  secret:
    secretName: {{ include "headwater.tlsSecret" .root }}
    defaultMode: 0440
{{- end }}
{{- if and .data $values.data.volume }}
- name: data
  {{- toYaml $values.data.volume | nindent 2 }}
{{- end }}
{{- if .links }}
{{- if include "headwater.shares" (list .root .component) }}
- name: sockets
  {{- with $values.sharedMemory.socketHostPath }}
  hostPath: {path: {{ . }}, type: Directory}
  {{- else }}
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
  {{- end }}
{{- end }}
{{- if and $values.rdma.enabled $values.rdma.hugepages.amount }}
- name: hugepages
  emptyDir: {medium: HugePages}
{{- end }}
{{- end }}
{{- with .tier.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
