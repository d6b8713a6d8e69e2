{{- define "logwright.name" -}}
{{- printf "%s-logwright" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "logwright.labels" -}}
app.kubernetes.io/name: logwright
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "logwright.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* What all pods have. */}}
{{- define "logwright.pod" -}}
automountServiceAccountToken: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ .Values.user.runAsUser }}
  runAsGroup: {{ .Values.user.runAsGroup }}
  fsGroup: {{ .Values.user.fsGroup }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "logwright.container" -}}
image: {{ include "logwright.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{- define "logwright.platformEnv" -}}
- name: LOGWRIGHT_LOG_DIRS
  value: {{ range $at, $dir := .Values.logDirs }}{{ if $at }},{{ end }}{{ $dir.name }}=/logs/{{ $dir.name }}{{ end }}
- {name: LOGWRIGHT_POLICIES, value: /etc/logwright/policies}
- {name: DAGSTER_EVENT_BATCH_SIZE, value: "100"}
{{- with .Values.platform.postgresql }}
{{- if .host }}
- {name: LOGWRIGHT_PG_HOST, value: {{ .host | quote }}}
- {name: LOGWRIGHT_PG_DATABASE, value: {{ .database | quote }}}
- {name: LOGWRIGHT_PG_USER, value: {{ .user | quote }}}
- name: LOGWRIGHT_PG_PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ .existingSecret | quote }}, key: password}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Mounts of web server and daemon; only the daemon writes to log directories. */}}
{{- define "logwright.platformMounts" -}}
- {name: state, mountPath: /var/lib/logwright}
- {name: policies, mountPath: /etc/logwright/policies, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- range .root.Values.logDirs }}
- name: {{ .name }}
  mountPath: /logs/{{ .name }}
  {{- with .subPath }}
  subPath: {{ . | quote }}
  {{- end }}
  readOnly: {{ $.readOnly }}
{{- end }}
{{- end -}}
