{{- /* A pod of a relay. `.root` is the chart, `.role` its role in the fleet: both, edge or ingest. */}}
{{- define "pvwire.pod" -}}
{{- $role := .role }}
{{- with .root }}
{{- $isTls := and (ne .Values.tls.secretName "") (not .Values.adminPort) }}
{{- $probed := printf "port: %s%s" (ternary "admin" "http" (ne (int .Values.adminPort) 0)) (ternary ", scheme: HTTPS" "" $isTls) -}}
metadata:
  labels: {{- include (ternary "pvwire.ingestLabels" "pvwire.labels" (eq $role "ingest")) . | nindent 4 }}
  annotations:
    checksum/config: {{ print (.Values.config | toJson) (include "pvwire.hosts" .) | sha256sum }}
    {{- with .Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  automountServiceAccountToken: false
  enableServiceLinks: false
  # The relay isn't ready for 2 s, closes connections over 3 s, and exits within 15 s.
  terminationGracePeriodSeconds: 20
  {{- if and .Values.epics.hostNetwork (ne $role "edge") }}
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
  {{- end }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    {{- if or .Values.tls.secretName .Values.audit.enabled (and .Values.bus.enabled (or .Values.bus.credentialsSecret .Values.bus.keySecret .Values.bus.caSecret)) }}
    fsGroup: 65532
    {{- end }}
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: relay
      image: {{ include "pvwire.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: ["--config", "/etc/pvwire/pvwire.toml"]
      env:
        - name: PVWIRE_LISTEN
          value: 0.0.0.0:8080
        {{- with .Values.adminPort }}
        - name: PVWIRE_ADMIN_LISTEN
          value: 0.0.0.0:{{ . }}
        {{- end }}
        {{- if eq (.Values.config.auth | default "none") "none" }}
        - name: PVWIRE_ALLOW_ANONYMOUS
          value: "true"
        {{- end }}
        {{- if .Values.tls.secretName }}
        - name: PVWIRE_TLS_CERT
          value: /etc/pvwire-tls/tls.crt
        - name: PVWIRE_TLS_KEY
          value: /etc/pvwire-tls/tls.key
        {{- end }}
        {{- if .Values.audit.enabled }}
        - name: POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        - name: PVWIRE_AUDIT_FILE
          value: /var/log/pvwire/$(POD_NAME).jsonl
        {{- end }}
        {{- if .Values.bus.enabled }}
        - name: PVWIRE_BUS
          value: {{ join "," .Values.bus.servers | quote }}
        - name: PVWIRE_SITE
          value: {{ .Values.bus.site | quote }}
        - name: PVWIRE_ROLE
          value: {{ $role }}
        {{- if and .Values.bus.memberUrl (eq $role "edge") }}
        {{- if not .Values.audit.enabled }}
        - name: POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        {{- end }}
        - name: POD_IP
          valueFrom:
            fieldRef:
              fieldPath: status.podIP
        - name: PVWIRE_MEMBER_URL
          value: {{ .Values.bus.memberUrl | quote }}
        {{- end }}
        {{- if .Values.bus.credentialsSecret }}
        - name: PVWIRE_BUS_CREDENTIALS
          value: /etc/pvwire-bus/credentials
        {{- end }}
        {{- if .Values.bus.keySecret }}
        - name: PVWIRE_BUS_KEY
          value: /etc/pvwire-bus-key/bus.key
        {{- end }}
        {{- if .Values.bus.caSecret }}
        - name: PVWIRE_BUS_CA
          value: /etc/pvwire-bus-ca/ca.crt
        {{- end }}
        {{- end }}
        {{- if ne $role "edge" }}
        - name: EPICS_CA_ADDR_LIST
          value: {{ .Values.epics.caAddrList | quote }}
        - name: EPICS_CA_NAME_SERVERS
          value: {{ .Values.epics.caNameServers | quote }}
        - name: EPICS_PVA_ADDR_LIST
          value: {{ .Values.epics.pvaAddrList | quote }}
        - name: EPICS_PVA_NAME_SERVERS
          value: {{ .Values.epics.pvaNameServers | quote }}
        - name: EPICS_CA_AUTO_ADDR_LIST
          value: {{ ternary "YES" "NO" .Values.epics.hostNetwork | quote }}
        - name: EPICS_PVA_AUTO_ADDR_LIST
          value: {{ ternary "YES" "NO" .Values.epics.hostNetwork | quote }}
        {{- end }}
        {{- with .Values.epics.extraEnv }}{{ toYaml . | nindent 8 }}{{ end }}
      ports:
        - name: http
          containerPort: 8080
          protocol: TCP
        {{- with .Values.adminPort }}
        - name: admin
          containerPort: {{ . }}
          protocol: TCP
        {{- end }}
      startupProbe:
        httpGet: { path: /ready, {{ $probed }} }
        periodSeconds: 1
        failureThreshold: 30
      readinessProbe:
        httpGet: { path: /ready, {{ $probed }} }
        periodSeconds: 2
        failureThreshold: 1
      livenessProbe:
        httpGet: { path: /live, {{ $probed }} }
        periodSeconds: 10
        timeoutSeconds: 5
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: ["ALL"]
      resources: {{- toYaml (ternary .Values.bus.ingest.resources .Values.resources (eq $role "ingest")) | nindent 8 }}
      volumeMounts:
        - name: config
          mountPath: /etc/pvwire
          readOnly: true
        {{- if .Values.tls.secretName }}
        - name: tls
          mountPath: /etc/pvwire-tls
          readOnly: true
        {{- end }}
        {{- if and .Values.bus.enabled .Values.bus.credentialsSecret }}
        - name: bus
          mountPath: /etc/pvwire-bus
          readOnly: true
        {{- end }}
        {{- if and .Values.bus.enabled .Values.bus.keySecret }}
        - name: bus-key
          mountPath: /etc/pvwire-bus-key
          readOnly: true
        {{- end }}
        {{- if and .Values.bus.enabled .Values.bus.caSecret }}
        - name: bus-ca
          mountPath: /etc/pvwire-bus-ca
          readOnly: true
        {{- end }}
        {{- if .Values.audit.enabled }}
        - name: audit
          mountPath: /var/log/pvwire
        {{- end }}
  volumes:
    - name: config
      configMap:
        name: {{ include "pvwire.name" . }}
    {{- with .Values.tls.secretName }}
    - name: tls
      secret:
        secretName: {{ . }}
        # Readable by the group of fsGroup, to which the relay belongs.
        defaultMode: 0440
    {{- end }}
    {{- if and .Values.bus.enabled .Values.bus.credentialsSecret }}
    - name: bus
      secret:
        secretName: {{ .Values.bus.credentialsSecret }}
        defaultMode: 0440
    {{- end }}
    {{- if and .Values.bus.enabled .Values.bus.keySecret }}
    - name: bus-key
      secret:
        secretName: {{ .Values.bus.keySecret }}
        defaultMode: 0440
    {{- end }}
    {{- if and .Values.bus.enabled .Values.bus.caSecret }}
    - name: bus-ca
      secret:
        secretName: {{ .Values.bus.caSecret }}
        defaultMode: 0440
    {{- end }}
    {{- if .Values.audit.enabled }}
    - name: audit
      {{- if .Values.audit.existingClaim }}
      persistentVolumeClaim:
        claimName: {{ .Values.audit.existingClaim }}
      {{- else }}
      emptyDir:
        sizeLimit: {{ .Values.audit.sizeLimit }}
      {{- end }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with (ternary .Values.bus.ingest.topologySpreadConstraints .Values.topologySpreadConstraints (eq $role "ingest")) }}
  topologySpreadConstraints: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end }}
