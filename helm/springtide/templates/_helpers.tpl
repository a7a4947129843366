{{/* Names. */}}

{{- define "springtide.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "springtide.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 48 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 48 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 48 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{/* Objects of the whole cluster carry the namespace in their names, so that releases do not meet. */}}
{{- define "springtide.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "springtide.fullname" .) | trunc 200 | trimSuffix "-" }}
{{- end }}

{{- define "springtide.secret" -}}
{{- default (include "springtide.fullname" .) .Values.existingSecret }}
{{- end }}

{{/* Fails where a Secret would be a new one at each rendering: (list $ "existingSecret"). A namespace has its account
`default` as soon as it exists; where it does not, whoever makes it may read others. */}}
{{- define "springtide.keptSecret" -}}
{{- $root := index . 0 }}
{{- if not $root.Values.newSecretsWithoutCluster }}
{{- if not (or (lookup "v1" "ServiceAccount" $root.Release.Namespace "default") (lookup "v1" "Namespace" "" "kube-system")) }}
{{- fail (printf "%s is empty, and the chart is rendered without the cluster, where no Secret can be kept: each rendering would make new ones. Make a Secret and name it (docs/kubernetes.md, GitOps). To look at the objects alone, set newSecretsWithoutCluster=true." (index . 1)) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "springtide.serviceAccount.service" -}}
{{- default (include "springtide.fullname" .) .Values.serviceAccount.service }}
{{- end }}

{{- define "springtide.serviceAccount.hub" -}}
{{- default (printf "%s-hub" (include "springtide.fullname" .)) .Values.serviceAccount.hub }}
{{- end }}

{{- define "springtide.trainNamespace" -}}
{{- default .Release.Namespace .Values.train.namespace.name }}
{{- end }}

{{- define "springtide.trainPolicy" -}}
{{- if and .Values.train.admissionPolicy.create (semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version) }}true{{ end }}
{{- end }}

{{/* What pod templates and declared secrets name: (list . "secret"), "configMap" or "csi", as a JSON list. */}}
{{- define "springtide.podObjects" -}}
{{- $root := index . 0 }}
{{- $kind := index . 1 }}
{{- $names := list }}
{{- range $template := concat (list $root.Values.train.podTemplate) (values $root.Values.train.projectPodTemplates) }}
{{- range $container := concat (list $template) (default list $template.initContainers) }}
{{- range default list $container.envFrom }}
{{- with get . (printf "%sRef" $kind) }}{{ $names = append $names .name }}{{ end }}
{{- end }}
{{- range default list $container.env }}
{{- with get (default dict .valueFrom) (printf "%sKeyRef" $kind) }}{{ $names = append $names .name }}{{ end }}
{{- end }}
{{- end }}
{{- range default list $template.volumes }}
{{- with get . $kind }}{{ $names = append $names (coalesce .secretName .driver .name) }}{{ end }}
{{- range default list (default dict .projected).sources }}
{{- with get . $kind }}{{ $names = append $names .name }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- if and (eq $kind "csi") (kindIs "map" $root.Values.train.sharedMemory) }}
{{- with get $root.Values.train.sharedMemory $kind }}{{ $names = append $names .driver }}{{ end }}
{{- end }}
{{- if eq $kind "secret" }}
{{- range $root.Values.secrets }}{{ $names = append $names .secret }}{{ end }}
{{- end }}
{{- $names | uniq | sortAlpha | toJson }}
{{- end }}

{{/* Whether pod templates have such a part of pods: (list . "ephemeral"), or "sidecar". */}}
{{- define "springtide.podHas" -}}
{{- $root := index . 0 }}
{{- $what := index . 1 }}
{{- $found := and (kindIs "map" $root.Values.train.sharedMemory) (hasKey $root.Values.train.sharedMemory $what) }}
{{- range $template := concat (list $root.Values.train.podTemplate) (values $root.Values.train.projectPodTemplates) }}
{{- range default list $template.volumes }}{{ if hasKey . $what }}{{ $found = true }}{{ end }}{{ end }}
{{- range default list $template.initContainers }}
{{- if and (eq $what "sidecar") (eq (default "" .restartPolicy) "Always") }}{{ $found = true }}{{ end }}
{{- end }}
{{- end }}
{{- if $found }}true{{ end }}
{{- end }}

{{/* Whether owners may open terminals in train pods: where the service can reach no other pods by the same right. */}}
{{- define "springtide.terminals" -}}
{{- $apart := ne (include "springtide.trainNamespace" .) .Release.Namespace }}
{{- if and .Values.train.terminals (or $apart (include "springtide.trainPolicy" .)) }}true{{ end }}
{{- end }}

{{/* Whether the chart makes an account that scrapes, and its token. */}}
{{- define "springtide.scraper" -}}
{{- $metrics := .Values.metrics }}
{{- if and (or $metrics.serviceMonitor.enabled $metrics.podMonitor.enabled) (not $metrics.authorization) }}true{{ end }}
{{- end }}

{{/* Where and how a monitor reads the metrics: (list $ .Values.metrics.serviceMonitor). */}}
{{- define "springtide.scrape" -}}
{{- $root := index . 0 -}}
path: {{ include "springtide.servicePrefix" $root }}api/v1/metrics
port: http
interval: {{ (index . 1).interval }}
authorization:
  {{- with $root.Values.metrics.authorization }}
  {{- toYaml . | nindent 2 }}
  {{- else }}
  credentials:
    name: {{ include "springtide.fullname" $root }}-scraper
    key: token
  {{- end }}
{{- end }}

{{- define "springtide.agentNamespace" -}}
{{- default .Release.Namespace .Values.agent.namespace.name }}
{{- end }}

{{- define "springtide.agentSecret" -}}
{{- default (printf "%s-agent" (include "springtide.fullname" .)) .Values.agent.existingSecret }}
{{- end }}

{{- define "springtide.trainJobNamespaces" -}}
{{- default (list .Release.Namespace) .Values.trainJobs.namespaces | toJson }}
{{- end }}

{{- define "springtide.storeClaim" -}}
{{- default (printf "%s-store" (include "springtide.fullname" .)) .Values.service.storage.existingClaim }}
{{- end }}

{{- define "springtide.jobsClaim" -}}
{{- default (printf "%s-jobs" (include "springtide.fullname" .)) .Values.train.jobs.existingClaim }}
{{- end }}

{{- define "springtide.hubClaim" -}}
{{- if .Values.hub.enabled }}
{{- default (printf "%s-hub" (include "springtide.fullname" .)) .Values.hub.storage.existingClaim }}
{{- else }}
{{- .Values.hub.existing.databaseClaim }}
{{- end }}
{{- end }}

{{- define "springtide.priorityClass.train" -}}
{{- if .Values.train.priorityClass.create }}
{{- default (printf "%s-train" (include "springtide.clusterName" .)) .Values.train.priorityClass.name }}
{{- else }}
{{- .Values.train.priorityClass.name }}
{{- end }}
{{- end }}

{{- define "springtide.priorityClass.placeholders" -}}
{{- if .Values.train.placeholders.priorityClass.create }}
{{- default (printf "%s-placeholders" (include "springtide.clusterName" .)) .Values.train.placeholders.priorityClass.name }}
{{- else }}
{{- .Values.train.placeholders.priorityClass.name }}
{{- end }}
{{- end }}

{{- define "springtide.priorityClass.notebooks" -}}
{{- if .Values.notebooks.priorityClass.create }}
{{- default (printf "%s-build" (include "springtide.clusterName" .)) .Values.notebooks.priorityClass.name }}
{{- else }}
{{- .Values.notebooks.priorityClass.name }}
{{- end }}
{{- end }}

{{/* Addresses. */}}

{{- define "springtide.baseUrl" -}}
{{- printf "/%s/" (trimAll "/" .Values.hub.baseUrl) | replace "//" "/" }}
{{- end }}

{{- define "springtide.servicePrefix" -}}
{{- printf "%sservices/springtide/" (include "springtide.baseUrl" .) }}
{{- end }}

{{- define "springtide.serviceUrl" -}}
{{- $own := printf "http://%s:%v" (include "springtide.fullname" .) .Values.service.port }}
{{- default $own .Values.service.url | trimSuffix "/" }}
{{- end }}

{{/* The API's address for programs of jobs, whose pods may be in another namespace. */}}
{{- define "springtide.jobsUrl" -}}
{{- $own := printf "http://%s.%s:%v" (include "springtide.fullname" .) .Release.Namespace .Values.service.port }}
{{- printf "%s%s" (default $own .Values.service.url | trimSuffix "/") (include "springtide.servicePrefix" .) }}
{{- end }}

{{- define "springtide.hubUrl" -}}
{{- if .Values.hub.enabled }}
{{- $own := printf "http://%s-hub:8081" (include "springtide.fullname" .) }}
{{- default $own .Values.hub.url | trimSuffix "/" }}
{{- else }}
{{- .Values.hub.existing.url | trimSuffix "/" }}
{{- end }}
{{- end }}

{{/* The address that people use, without a slash; empty if hub.publicUrl is. */}}
{{- define "springtide.publicUrl" -}}
{{- .Values.hub.publicUrl | trimSuffix "/" }}
{{- end }}

{{/* Its host name, without port. */}}
{{- define "springtide.publicHost" -}}
{{- regexReplaceAll ":[0-9]+$" (regexReplaceAll "^https?://" (include "springtide.publicUrl" .) "") "" }}
{{- end }}

{{/* The address of the hub's pages where users and services have subdomains; else empty. */}}
{{- define "springtide.subdomainHost" -}}
{{- if .Values.hub.subdomains }}
{{- include "springtide.publicUrl" . }}
{{- end }}
{{- end }}

{{/* The service's address for browsers where it has a subdomain; else empty. JupyterHub makes the name. */}}
{{- define "springtide.servicePublicUrl" -}}
{{- with include "springtide.subdomainHost" . }}
{{- regexReplaceAll "://" . "://springtide--service." }}{{ include "springtide.servicePrefix" $ }}
{{- end }}
{{- end }}

{{/* Host names that proxy and service answer under, as a JSON list; empty for any. */}}
{{- define "springtide.allowedHosts" -}}
{{- $names := list }}
{{- with include "springtide.publicHost" . }}
{{- $names = append $names (ternary (printf ".%s" .) . $.Values.hub.subdomains) }}
{{- end }}
{{- concat $names .Values.hub.allowedHosts | uniq | toJson }}
{{- end }}

{{/* The same for the service, which others of the cluster reach by the name of its Service. */}}
{{- define "springtide.serviceHosts" -}}
{{- $names := include "springtide.allowedHosts" . | fromJsonArray }}
{{- if $names }}
{{- $service := regexReplaceAll "(:[0-9]+)?(/.*)?$" (regexReplaceAll "^https?://" (include "springtide.serviceUrl" .) "") "" }}
{{- $own := printf "%s.%s" (include "springtide.fullname" .) .Release.Namespace }}
{{- $names = concat $names (list $service (include "springtide.fullname" .) $own (printf "%s.svc" $own) (printf "%s.svc.cluster.local" $own)) }}
{{- end }}
{{- $names | uniq | toJson }}
{{- end }}

{{- define "springtide.proxyApiUrl" -}}
{{- $own := printf "http://%s-proxy-api:8001" (include "springtide.fullname" .) }}
{{- default $own .Values.proxy.apiUrl | trimSuffix "/" }}
{{- end }}

{{/* Images: (list $ .Values.images.service). */}}
{{- define "springtide.image" -}}
{{- $root := index . 0 }}
{{- $image := index . 1 }}
{{- if $image.digest }}
{{- printf "%s@%s" $image.repository $image.digest }}
{{- else }}
{{- printf "%s:%s" $image.repository (default $root.Chart.AppVersion $image.tag) }}
{{- end }}
{{- end }}

{{- define "springtide.images" -}}
{{- default (list (include "springtide.image" (list . .Values.images.notebook))) .Values.train.images | toJson }}
{{- end }}

{{/* Labels: of all objects, and those that select the pods of a part: (list $ "service"). */}}

{{- define "springtide.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ include "springtide.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "springtide.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "springtide.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* Pods under the restricted Pod Security Standard: (list $ runAsUser runAsGroup fsGroup). */}}
{{- define "springtide.podSecurityContext" -}}
runAsNonRoot: true
{{- if not (index . 0).Values.assignedUsers }}
runAsUser: {{ index . 1 }}
runAsGroup: {{ index . 2 }}
fsGroup: {{ index . 3 }}
{{- end }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "springtide.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Where the pods of a part may run, and what an administrator adds to them: .Values.<part>. */}}
{{- define "springtide.scheduling" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .extraPodSpec }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "springtide.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{/* A claim that outlives the release: (list $ name volume). */}}
{{- define "springtide.claim" -}}
{{- $root := index . 0 }}
{{- $volume := index . 2 -}}
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ index . 1 }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "springtide.labels" $root | nindent 4 }}
  annotations:
    helm.sh/resource-policy: keep
spec:
  accessModes:
    {{- toYaml $volume.accessModes | nindent 4 }}
  {{- with $volume.storageClassName }}
  storageClassName: {{ . | quote }}
  {{- end }}
  resources:
    requests:
      storage: {{ $volume.size }}
{{- end }}

{{/* What the service does with SpringtideJobs, and with TrainJobs, of which it makes SpringtideJobs. */}}
{{- define "springtide.trainJobRules" -}}
- apiGroups: [springtide.io]
  resources: [springtidejobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [springtide.io]
  resources: [trainjobs]
  verbs: [get, list, watch, patch, delete]
- apiGroups: [springtide.io]
  resources: [springtidejobs/status, trainjobs/status]
  verbs: [patch]
# What happens to their jobs.
- apiGroups: [""]
  resources: [events]
  verbs: [get, create, patch]
{{- end }}
