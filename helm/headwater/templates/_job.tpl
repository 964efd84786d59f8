{{/* How many pods the Job has: ranks of a training, or trials of a search. */}}
{{- define "headwater.job.pods" -}}
{{- if and .Values.job.trials (gt (int .Values.job.ranks) 1) }}
{{- fail (printf "job.trials is %d and job.ranks %d: a trial is one rank; leave job.ranks at 1" (int .Values.job.trials) (int .Values.job.ranks)) }}
{{- end }}
{{- .Values.job.trials | default .Values.job.ranks }}
{{- end -}}

{{/* The release's Jobs that have not ended, as a list under `jobs`, each with its name, its ranks' image and the wire version
     that it began with. Nothing where helm has no cluster, as in `helm template`. */}}
{{- define "headwater.job.running" -}}
{{- $root := . -}}
jobs:
{{- range (lookup "batch/v1" "Job" .Release.Namespace "").items }}
{{- $labels := default dict .metadata.labels }}
{{- $ours := and (eq (toString (index $labels "app.kubernetes.io/instance")) $root.Release.Name) (eq (toString (index $labels "app.kubernetes.io/component")) "receiver") }}
{{- $ended := false }}
{{- range (default dict .status).conditions }}
{{- if and (has .type (list "Complete" "Failed")) (eq .status "True") }}
{{- $ended = true }}
{{- end }}
{{- end }}
{{- if and $ours (not $ended) }}
  - name: {{ .metadata.name }}
    image: {{ (index .spec.template.spec.containers 0).image | quote }}
    wire: {{ index (default dict .metadata.annotations) "headwater/wire-version" | default "" | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Image of the ranks. A Job that runs keeps the one that it began with, unless job.image names another: a new version
     of the chart must not end a training. List ROOT RUNNING. */}}
{{- define "headwater.job.image" -}}
{{- $root := index . 0 -}}
{{- $name := include "headwater.image.receiver" $root -}}
{{- $image := include "headwater.image" (list $root $name $root.Values.job.image) -}}
{{- if not $root.Values.job.image -}}
{{- range index . 1 -}}
{{- if regexMatch (printf "(^|/)headwater-%s[:@]" $name) .image -}}
{{- $image = .image -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $image -}}
{{- end -}}

{{/* The wire version of the workers; nothing where values say which release they are. */}}
{{- define "headwater.wire" -}}
{{- if not (or .Values.image.tag .Values.augment.image) -}}
{{- index .Chart.Annotations "headwater/wire-version" -}}
{{- end -}}
{{- end -}}

{{/* Refuses to change the workers of a Job that goes on and could not use them: list ROOT RUNNING BASE. */}}
{{- define "headwater.job.check" -}}
{{- $root := index . 0 -}}
{{- $base := index . 2 -}}
{{- $wire := include "headwater.wire" $root -}}
{{- range index . 1 -}}
{{- if and (hasPrefix $base .name) $wire .wire (ne $wire .wire) -}}
{{- fail (printf "Job %s runs with wire version %s, and the workers of this release speak %s, so it would lose all of them: upgrade when it has ended, or end it with job.enabled=false first" .name .wire $wire) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Spec of the Job: list ROOT RANK IMAGE. RANK, or the trial's number, is "" where the cluster numbers the pods itself. Its
     name is left as JOB_NAME, because it holds a digest of this text. */}}
{{- define "headwater.job" -}}
{{- $root := index . 0 -}}
{{- $rank := index . 1 -}}
{{- $indexed := eq $rank "" -}}
{{- $job := $root.Values.job -}}
{{- $pods := include "headwater.job.pods" $root | int -}}
{{- $service := printf "%s-train" (include "headwater.fullname" $root) -}}
{{- $parts := dict "root" $root "tier" $job "pool" $job "component" "receiver" "data" false "links" true -}}
{{- $sidecar := include "headwater.sidecar" (list $root "receiver") -}}
{{- $native := include "headwater.sidecar.native" $root -}}
{{- $version := $root.Capabilities.KubeVersion.Version -}}
completions: {{ ternary $pods 1 $indexed }}
parallelism: {{ ternary $pods 1 $indexed }}
{{- if $indexed }}
completionMode: Indexed
{{- end }}
{{- if and $indexed $job.trials (semverCompare ">=1.29-0" $version) }}
{{- /* A trial that fails takes nothing from the others. */}}
backoffLimitPerIndex: {{ $job.backoffLimit }}
{{- else if and $indexed $job.trials }}
backoffLimit: {{ mul $job.backoffLimit $pods }}
{{- else }}
backoffLimit: {{ $job.backoffLimit }}
{{- end }}
{{- if and $job.podFailurePolicy (semverCompare ">=1.26-0" $version) }}
podFailurePolicy:
  {{- toYaml $job.podFailurePolicy | nindent 2 }}
{{- end }}
{{- with $job.ttlSecondsAfterFinished }}
ttlSecondsAfterFinished: {{ . }}
{{- end }}
template:
  metadata:
    {{- include "headwater.pod.metadata" (list $root "receiver" $job "") | nindent 4 }}
    {{- if $sidecar }}
      checksum/worker: {{ include "headwater.config" (list $root "augment") | sha256sum }}
    {{- end }}
  spec:
    {{- include "headwater.pod.head" $parts | nindent 4 }}
    {{- include "headwater.pod.spread" (list $root "receiver") | nindent 4 }}
    restartPolicy: Never
    terminationGracePeriodSeconds: {{ $job.terminationGracePeriodSeconds }}
    subdomain: {{ $service }}
    {{- if not $indexed }}
    hostname: JOB_NAME-{{ $rank }}
    {{- end }}
    {{- if and $sidecar $native }}
    initContainers:
      {{- include "headwater.sidecar.container" $root | nindent 6 }}
    {{- end }}
    containers:
      - name: trainer
        image: {{ index . 2 }}
        imagePullPolicy: {{ $root.Values.image.pullPolicy }}
        {{- with $job.command }}
        command: {{ toJson . }}
        {{- end }}
        args: {{ toJson $job.args }}
        env:
          - name: HEADWATER_CONFIG
            value: /etc/headwater/headwater.toml
          {{- include "headwater.env.field" (list $root "links" "tcp_advertise" "status.podIP") | nindent 10 }}
          {{- /* What JOB_COMPLETION_INDEX is made of too. */}}
          {{- range ternary (list "HW_TRIAL") (list "HEADWATER_RECEIVER__RANK" "RANK") (gt (int $job.trials) 0) }}
          - name: {{ . }}
            {{- if $indexed }}
            valueFrom:
              fieldRef:
                fieldPath: metadata.annotations['batch.kubernetes.io/job-completion-index']
            {{- else }}
            value: {{ $rank | quote }}
            {{- end }}
          {{- end }}
          {{- if $job.trials }}
          {{- /* Each has its own place in the stream. */}}
          - name: HEADWATER_RECEIVER__JOB
            value: trial-$(HW_TRIAL)
          {{- if $job.checkpoints.volume }}
          - name: HEADWATER_RECEIVER__CHECKPOINT_DIR
            value: /var/lib/headwater/checkpoints/trial-$(HW_TRIAL)
          {{- end }}
          - name: RANK
            value: "0"
          {{- end }}
          - name: WORLD_SIZE
            value: {{ $job.ranks | quote }}
          - name: MASTER_ADDR
            value: {{ ternary "127.0.0.1" (printf "JOB_NAME-0.%s.%s.svc" $service $root.Release.Namespace) (gt (int $job.trials) 0) }}
          - name: MASTER_PORT
            value: {{ $job.masterPort | quote }}
          {{- with $job.extraEnv }}
          {{- toYaml . | nindent 10 }}
          {{- end }}
        ports:
          - {name: link, containerPort: {{ $job.linkPort }}}
          - {name: master, containerPort: {{ $job.masterPort }}}
          - {name: metrics, containerPort: {{ $root.Values.monitoring.port }}}
        {{- if $job.probes }}
        {{- include "headwater.probes" 600 | nindent 8 }}
        {{- end }}
        resources:
          {{- include "headwater.resources" (dict "root" $root "resources" $job.resources "gpus" $job.gpus "rdma" true) | nindent 10 }}
        securityContext:
          {{- include "headwater.container.security" . | nindent 10 }}
        volumeMounts:
          {{- include "headwater.mounts" $parts | nindent 10 }}
          - {name: shm, mountPath: /dev/shm}
          {{- if $job.checkpoints.volume }}
          - {name: checkpoints, mountPath: /var/lib/headwater/checkpoints}
          {{- end }}
      {{- if and $sidecar (not $native) }}
      {{- include "headwater.sidecar.container" $root | nindent 6 }}
      {{- end }}
    volumes:
      {{- include "headwater.volumes" (merge (dict "data" (and $sidecar $root.Values.data.mountInAugment)) $parts) | nindent 6 }}
      - name: shm
        emptyDir: {medium: Memory, sizeLimit: {{ $job.shmSize }}}
      {{- with $job.checkpoints.volume }}
      - name: checkpoints
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end -}}
