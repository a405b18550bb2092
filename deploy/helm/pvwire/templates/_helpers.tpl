{{- define "pvwire.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}
{{- end }}

{{- define "pvwire.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "pvwire.labels" -}}
{{ include "pvwire.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "pvwire.ingestSelector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-ingest
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "pvwire.ingestLabels" -}}
{{ include "pvwire.ingestSelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* What a relay may connect to, for its role. */}}
{{- define "pvwire.egress" -}}
# DNS, for the names of IOCs, name servers and NATS.
- to:
    - namespaceSelector: {}
      podSelector:
        matchLabels:
          k8s-app: kube-dns
  ports:
    - port: 53
      protocol: UDP
    - port: 53
      protocol: TCP
{{- if .root.Values.bus.enabled }}
- to: {{- toYaml .root.Values.bus.peers | nindent 4 }}
  ports:
    - port: {{ .root.Values.bus.port }}
      protocol: TCP
{{- end }}
{{- if and (ne .role "edge") (or .root.Values.networkPolicy.iocNetworks .root.Values.networkPolicy.iocPeers) }}
- to:
    {{- with .root.Values.networkPolicy.iocPeers }}{{ toYaml . | nindent 4 }}{{ end }}
    {{- range .root.Values.networkPolicy.iocNetworks }}
    - ipBlock:
        cidr: {{ . }}
    {{- end }}
{{- end }}
{{- end }}

{{- define "pvwire.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* Host names that the relay answers to, as JSON: those of its Service, the ingress's, and the operator's. */}}
{{- define "pvwire.hosts" -}}
{{- $name := include "pvwire.name" . }}
{{- $inside := printf "%s.%s" $name .Release.Namespace }}
{{- $hosts := list $name $inside (printf "%s.svc" $inside) (printf "%s.svc.%s" $inside .Values.clusterDomain) }}
{{- if .Values.ingress.enabled }}
{{- $hosts = append $hosts .Values.ingress.host }}
{{- end }}
{{- concat $hosts (.Values.config.allow_host | default list) | uniq | toJson }}
{{- end }}

{{- /* A value as TOML: JSON has the same texts, numbers and lists; tables, as rules are, differ. */}}
{{- define "pvwire.toml" -}}
{{- if kindIs "map" . }}
{{- $parts := list }}
{{- range $key, $value := . }}
{{- $parts = append $parts (printf "%s = %s" $key (include "pvwire.toml" $value)) }}
{{- end -}}
{ {{ join ", " $parts }} }
{{- else if kindIs "slice" . }}
{{- $parts := list }}
{{- range . }}
{{- $parts = append $parts (include "pvwire.toml" .) }}
{{- end -}}
[{{ join ", " $parts }}]
{{- else -}}
{{ toJson . }}
{{- end }}
{{- end }}
