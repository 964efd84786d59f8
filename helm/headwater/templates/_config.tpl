{{/* What each tier's headwater.toml holds: what the chart knows, and over it the values' `config`. */}}

{{- define "headwater.config.shared" -}}
{{- $security := .Values.security -}}
telemetry:
  log_format: json
  metrics_listen: 0.0.0.0:{{ .Values.monitoring.port }}
security:
  {{- if $security.token.enabled }}
  token_file: /etc/headwater/token/token
  {{- end }}
  {{- if $security.tls.enabled }}
  ca_file: /etc/headwater/tls/ca.crt
  cert_file: /etc/headwater/tls/tls.crt
  key_file: /etc/headwater/tls/tls.key
  server_name: {{ include "headwater.serverName" . }}
  {{- end }}
{{- end -}}

{{/* Workers: all pods of the name, followed as they come and go. */}}
{{- define "headwater.addresses.augment" -}}
- {{ include "headwater.place" (list . "augment" "grpc" .Values.augment.port) }}
{{- end -}}

{{/* All pods of a Service: list ROOT COMPONENT PORT-NAME PORT. */}}
{{- define "headwater.place" -}}
{{- $root := index . 0 -}}
{{- $service := printf "%s-%s" (include "headwater.fullname" $root) (index . 1) -}}
{{- if eq $root.Values.discovery "endpointSlices" -}}
slices:{{ $root.Release.Namespace }}/{{ $service }}:{{ index . 2 }}
{{- else -}}
dns:{{ $service }}.{{ $root.Release.Namespace }}.svc:{{ index . 3 }}
{{- end -}}
{{- end -}}

{{/* Storage nodes of a StatefulSet are called by their own names, which a pod keeps when it comes back
     with another address: their shards stay theirs. */}}
{{- define "headwater.addresses.storage" -}}
{{- $service := printf "%s-storage" (include "headwater.fullname" .) -}}
{{- $place := printf "%s.%s.svc:%v" $service .Release.Namespace .Values.storage.port -}}
{{- if or (eq .Values.storage.kind "DaemonSet") (eq .Values.discovery "endpointSlices") -}}
- {{ include "headwater.place" (list . "storage" "grpc" .Values.storage.port) }}
{{- else -}}
{{- range until (int .Values.storage.replicas) }}
- {{ printf "%s-%d.%s" $service . $place }}
{{- end }}
{{- end -}}
{{- end -}}

{{- define "headwater.config.storage" -}}
storage:
  listen: 0.0.0.0:{{ .Values.storage.port }}
  index_dir: /var/lib/headwater/index
{{- end -}}

{{- define "headwater.config.augment" -}}
augment:
  listen: 0.0.0.0:{{ .Values.augment.port }}
  {{- if .Values.storage.enabled }}
  storage:
    {{- include "headwater.addresses.storage" . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "headwater.config.receiver" -}}
receiver:
  job: {{ include "headwater.fullname" . }}
  world_size: {{ .Values.job.ranks }}
  epochs: 1
  {{- if .Values.job.checkpoints.volume }}
  checkpoint_dir: /var/lib/headwater/checkpoints
  resume: true
  {{- end }}
  {{- include "headwater.config.tiers" (list . "receiver") | nindent 2 }}
{{ include "headwater.config.links" (list . .Values.job.linkPort "receiver") }}
{{- end -}}

{{/* Where receivers listen: list ROOT PORT COMPONENT. */}}
{{- define "headwater.config.links" -}}
links:
  tcp_listen: 0.0.0.0:{{ index . 1 }}
  {{- if include "headwater.shares" (list (index . 0) (index . 2)) }}
  shm_socket_dir: /run/headwater
  {{- end }}
{{- end -}}

{{/* One rank of its own, which goes on without end. */}}
{{- define "headwater.config.publish" -}}
{{- $publish := .Values.publish -}}
receiver:
  job: {{ include "headwater.fullname" . }}-publish
  world_size: 1
  epochs: 0
  {{- if $publish.checkpoints.volume }}
  checkpoint_dir: /var/lib/headwater/checkpoints
  resume: true
  {{- end }}
  {{- include "headwater.config.tiers" (list . "publish") | nindent 2 }}
{{ include "headwater.config.links" (list . $publish.linkPort "publish") }}
publish:
  urls:
    {{- if $publish.losslessClients }}
    - {{ printf "zrpush://0.0.0.0:{%v..%v}" $publish.port (sub (add $publish.port $publish.losslessClients) 1) | quote }}
    {{- else }}
    - zpub://0.0.0.0:{{ $publish.port }}
    {{- end }}
{{- end -}}

{{/* Where a receiver finds the other tiers, and by which links: list ROOT COMPONENT. */}}
{{- define "headwater.config.tiers" -}}
{{- $root := index . 0 -}}
{{- $tier := $root.Values.augment -}}
{{- $sidecar := include "headwater.sidecar" . -}}
workers:
  {{- if $sidecar }}
  - 127.0.0.1:{{ $tier.port }}
  {{- end }}
  {{- if or (not $sidecar) $tier.cpu.enabled $tier.gpu.enabled }}
  {{- include "headwater.addresses.augment" $root | nindent 2 }}
  {{- end }}
{{- if $root.Values.storage.enabled }}
storage:
  {{- include "headwater.addresses.storage" $root | nindent 2 }}
{{- end }}
links:
  {{- if include "headwater.shares" . }}
  - shm
  {{- end }}
  {{- if $root.Values.rdma.enabled }}
  - rdma
  {{- end }}
  - tcp
{{- end -}}

{{/* Whether a component's pods have a worker of their own: list ROOT COMPONENT. */}}
{{- define "headwater.sidecar" -}}
{{- if and (index . 0).Values.sharedMemory.sidecar.enabled (eq (index . 1) "receiver") -}}
true
{{- end -}}
{{- end -}}

{{/* Whether links of a component may go through shared memory: list ROOT COMPONENT. */}}
{{- define "headwater.shares" -}}
{{- if or (index . 0).Values.sharedMemory.socketHostPath (include "headwater.sidecar" .) -}}
true
{{- end -}}
{{- end -}}

{{/* The file of one tier: list ROOT TIER. */}}
{{- define "headwater.config" -}}
{{- $root := index . 0 -}}
{{- $tier := index . 1 -}}
{{- $sections := dict
  "storage" (list "dataset" "filter" "hub" "storage")
  "augment" (list "dataset" "augment" "links")
  "receiver" (list "dataset" "curriculum" "hub" "recipe" "receiver" "links")
  "publish" (list "dataset" "curriculum" "hub" "recipe" "receiver" "links" "publish") -}}
{{- $known := include "headwater.config.shared" $root | fromYaml -}}
{{- $known = mergeOverwrite $known (include (printf "headwater.config.%s" $tier) $root | fromYaml) -}}
{{- $set := dict -}}
{{- range concat (index $sections $tier) (list "security" "telemetry") -}}
{{- if hasKey $root.Values.config . -}}
{{- $_ := set $set . (deepCopy (index $root.Values.config .)) -}}
{{- end -}}
{{- end -}}
{{- if eq $tier "storage" -}}
{{- /* Filters that name no field are about this one. */ -}}
{{- with include "headwater.configured" (list $root "receiver" "image_field") -}}
{{- $_ := set $set "receiver" (dict "image_field" .) -}}
{{- end -}}
{{- end -}}
{{- include "headwater.toml" (mergeOverwrite $known $set) | trim -}}
{{- end -}}

{{/* A key of the values' `config`, or nothing: list ROOT SECTION KEY. */}}
{{- define "headwater.configured" -}}
{{- $section := default dict (index (index . 0).Values.config (index . 1)) -}}
{{- default "" (index $section (index . 2)) -}}
{{- end -}}

{{/* What can be seen to be wrong before anything starts. */}}
{{- define "headwater.check" -}}
{{- if and .Values.storage.enabled (not .Values.config.dataset) -}}
{{- fail "config.dataset is empty: name at least one dataset, as in --set-json 'config.dataset=[{\"name\":\"photos\",\"shards\":\"/data/*.tar\"}]'" -}}
{{- end -}}
{{- if and .Values.storage.enabled (not .Values.data.volume) -}}
{{- fail "data.volume is empty: say where the shards are, as in --set data.volume.hostPath.path=/lustre/shards" -}}
{{- end -}}
{{- $augment := default dict .Values.config.augment -}}
{{- if and (not .Values.storage.enabled) (not $augment.storage) -}}
{{- fail "storage.enabled is false: set config.augment.storage (and config.receiver.storage, for the job) to the nodes there are" -}}
{{- end -}}
{{- if and (not .Values.storage.enabled) (or .Values.job.enabled .Values.publish.enabled) (not (include "headwater.configured" (list . "receiver" "storage"))) -}}
{{- fail "storage.enabled is false: set config.receiver.storage to the nodes there are" -}}
{{- end -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" (include "headwater.fullname" .)) -}}
{{- fail (printf "the objects would be called %q, and a Service's name begins with a letter and has only a-z, 0-9 and -: set fullnameOverride" (include "headwater.fullname" .)) -}}
{{- end -}}
{{- $shared := .Values.sharedMemory -}}
{{- if and $shared.sidecar.enabled $shared.socketHostPath -}}
{{- fail "sharedMemory.sidecar.enabled and sharedMemory.socketHostPath: choose one, a folder of the pod or one of the node" -}}
{{- end -}}
{{- if and $shared.sidecar.enabled .Values.job.enabled (not .Values.job.probes) (not (include "headwater.sidecar.native" .)) -}}
{{- fail "sharedMemory.sidecar.enabled with job.probes=false needs Kubernetes 1.29: an older cluster ends the worker when the rank stops serving /healthz, which only job.probes promises" -}}
{{- end -}}
{{- $policy := .Values.networkPolicy -}}
{{- if and $policy.enabled $policy.restrictEgress (eq .Values.discovery "endpointSlices") (not $policy.apiServer) -}}
{{- fail "networkPolicy.restrictEgress with discovery=endpointSlices: say in networkPolicy.apiServer where the API server is, as in [{ipBlock: {cidr: 10.0.0.1/32}}] (kubectl get endpoints kubernetes)" -}}
{{- end -}}
{{- $tls := .Values.security.tls -}}
{{- if and $tls.enabled (not $tls.certManager.enabled) (not $tls.existingSecret) -}}
{{- fail "security.tls.enabled is true: name security.tls.existingSecret (with ca.crt, tls.crt and tls.key), or turn security.tls.certManager.enabled on" -}}
{{- end -}}
{{- if and $tls.enabled $tls.certManager.enabled (not $tls.certManager.issuerRef) -}}
{{- fail "security.tls.certManager.issuerRef is empty: name the issuer, as in {name: internal-ca, kind: ClusterIssuer}" -}}
{{- end -}}
{{- end -}}
