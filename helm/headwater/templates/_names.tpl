{{/* Names and labels. */}}

{{- define "headwater.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Short enough for what is put behind it: `-storage-0`, `-train-0123abcd-17`. */}}
{{- define "headwater.fullname" -}}
{{- $name := include "headwater.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What selects the pods of a tier: list ROOT COMPONENT. */}}
{{- define "headwater.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "headwater.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
{{- with index . 1 }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{/* Labels of an object: list ROOT COMPONENT; an empty component for what belongs to no tier. Pods carry only those
     that select them: one that changes with the chart's version would replace every pod. */}}
{{- define "headwater.labels" -}}
{{- $root := index . 0 -}}
{{ include "headwater.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Image of a tier: list ROOT NAME OVERRIDE. */}}
{{- define "headwater.image" -}}
{{- $root := index . 0 -}}
{{- if index . 2 -}}
{{- index . 2 -}}
{{- else -}}
{{- $image := $root.Values.image -}}
{{- $place := printf "%s/headwater-%s:%s" $image.registry (index . 1) (default $root.Chart.AppVersion $image.tag) -}}
{{- with index $image.digests (index . 1) -}}
{{- $place = printf "%s@%s" $place . -}}
{{- end -}}
{{- $place -}}
{{- end -}}
{{- end -}}

{{/* Names of images that have what a tier's devices need. */}}
{{- define "headwater.image.receiver" -}}
{{- ternary "receiver-rdma" "receiver" .Values.rdma.enabled -}}
{{- end -}}

{{/* list ROOT FLAVOUR */}}
{{- define "headwater.image.augment" -}}
{{- $cpu := ternary "augment-rdma" "augment" (index . 0).Values.rdma.enabled -}}
{{- ternary "augment-cuda" $cpu (eq (index . 1) "gpu") -}}
{{- end -}}

{{- define "headwater.serviceAccount" -}}
{{- $default := ternary (include "headwater.fullname" .) "default" .Values.serviceAccount.create -}}
{{- default $default .Values.serviceAccount.name -}}
{{- end -}}

{{- define "headwater.priorityClass" -}}
{{- default (include "headwater.fullname" .) .Values.priorityClass.name -}}
{{- end -}}

{{- define "headwater.tokenSecret" -}}
{{- default (printf "%s-token" (include "headwater.fullname" .)) .Values.security.token.existingSecret -}}
{{- end -}}

{{- define "headwater.tlsSecret" -}}
{{- default (printf "%s-tls" (include "headwater.fullname" .)) .Values.security.tls.existingSecret -}}
{{- end -}}

{{- define "headwater.serverName" -}}
{{- default (include "headwater.fullname" .) .Values.security.tls.serverName -}}
{{- end -}}

{{/* Stops with a sentence where the cluster lacks an API: list ROOT API VALUE. */}}
{{- define "headwater.needs" -}}
{{- $root := index . 0 -}}
{{- $api := index . 1 -}}
{{- if not ($root.Capabilities.APIVersions.Has $api) -}}
{{- fail (printf "%s asks for %s, which this cluster does not know: install what brings it, or turn %s off (helm template: --api-versions %s)" (index . 2) $api (index . 2) $api) -}}
{{- end -}}
{{- end -}}

{{/* The newer of two APIs where the cluster has it: list ROOT NEWER SINCE OLDER. `helm template` takes every
     API to be there, so the version is asked too. */}}
{{- define "headwater.api" -}}
{{- $root := index . 0 -}}
{{- $since := semverCompare (printf ">=%s-0" (index . 2)) $root.Capabilities.KubeVersion.Version -}}
{{- ternary (index . 1) (index . 3) (and $since ($root.Capabilities.APIVersions.Has (index . 1))) -}}
{{- end -}}
