{{/* How many pods the Job has: ranks of a training, or trials of a search. */}}
{{- define "headwater.job.pods" -}}
{{- if and .Values.job.trials (gt (int .Values.job.ranks) 1) }}
{{- fail (printf "job.trials is %d and job.ranks %d: a trial is one rank; leave job.ranks at 1" (int .Values.job.trials) (int .Values.job.ranks)) }}
{{- end }}
{{- .Values.job.trials | default .Values.job.ranks }}
{{- end -}}

{{/* Spec of the Job: list ROOT RANK. RANK, or the trial's number, is "" where the cluster numbers the pods itself. Its
     name is left as JOB_NAME, because it holds a digest of this text. */}}
{{- define "headwater.job" -}}
{{- $root := index . 0 -}}
{{- $rank := index . 1 -}}
{{- $indexed := eq $rank "" -}}
{{- $job := $root.Values.job -}}
{{- $pods := include "headwater.job.pods" $root | int -}}
{{- $service := printf "%s-train" (include "headwater.fullname" $root) -}}
{{- $parts := dict "root" $root "tier" $job "pool" $job "component" "receiver" "data" false "links" true -}}
completions: {{ ternary $pods 1 $indexed }}
parallelism: {{ ternary $pods 1 $indexed }}
{{- if $indexed }}
completionMode: Indexed
{{- end }}
backoffLimit: {{ $job.backoffLimit }}
{{- with $job.ttlSecondsAfterFinished }}
ttlSecondsAfterFinished: {{ . }}
{{- end }}
template:
  metadata:
    {{- include "headwater.pod.metadata" (list $root "receiver" $job "") | nindent 4 }}
  spec:
    {{- include "headwater.pod.head" $parts | nindent 4 }}
    {{- include "headwater.pod.spread" (list $root "receiver") | nindent 4 }}
    restartPolicy: Never
    subdomain: {{ $service }}
    {{- if not $indexed }}
    hostname: JOB_NAME-{{ $rank }}
    {{- end }}
    containers:
      - name: trainer
        image: {{ include "headwater.image" (list $root "receiver" $job.image) }}
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
          {{- include "headwater.container.security" $root.Values.rdma.enabled | nindent 10 }}
        volumeMounts:
          {{- include "headwater.mounts" $parts | nindent 10 }}
          - {name: shm, mountPath: /dev/shm}
          {{- if $job.checkpoints.volume }}
          - {name: checkpoints, mountPath: /var/lib/headwater/checkpoints}
          {{- end }}
    volumes:
      {{- include "headwater.volumes" $parts | nindent 6 }}
      - name: shm
        emptyDir: {medium: Memory, sizeLimit: {{ $job.shmSize }}}
      {{- with $job.checkpoints.volume }}
      - name: checkpoints
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end -}}
