{{/* Helm's own toToml writes whole numbers as `7401.0`, which is no integer; so values become TOML here. */}}

{{- define "headwater.toml" -}}
{{- range $section, $keys := . }}
{{- if kindIs "slice" $keys }}
{{- range $keys }}
[[{{ $section }}]]
{{ include "headwater.toml.keys" . | trim }}
{{- end }}
{{- else if $keys }}
[{{ $section }}]
{{ include "headwater.toml.keys" $keys | trim }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "headwater.toml.keys" -}}
{{- range $key, $value := . }}
{{- if not (kindIs "invalid" $value) }}
{{- /* A seed too large for Helm's numbers is a string of digits. */}}
{{- $digits := and (eq $key "seed") (kindIs "string" $value) }}
{{ $key }} = {{ if $digits }}{{ $value }}{{ else }}{{ include "headwater.toml.value" $value }}{{ end }}
{{- end }}
{{- end }}
{{ end -}}

{{- define "headwater.toml.value" -}}
{{- if kindIs "map" . -}}
{{- $pairs := list -}}
{{- range $key, $value := . -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $pairs = append $pairs (printf "%s = %s" $key (include "headwater.toml.value" $value)) -}}
{{- end -}}
{{- end -}}
{ {{ join ", " $pairs }} }
{{- else if kindIs "slice" . -}}
{{- $items := list -}}
{{- range . -}}
{{- $items = append $items (include "headwater.toml.value" .) -}}
{{- end -}}
[{{ join ", " $items }}]
{{- else -}}
{{- /* Strings, numbers and truth values are written as in JSON. */ -}}
{{- toRawJson . -}}
{{- end -}}
{{- end -}}
