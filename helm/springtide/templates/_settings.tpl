{{/* What the service reads: c.Springtide.<name>, as JSON. */}}
{{- define "springtide.settings" -}}
{{- $train := .Values.train }}
{{- $kubernetes := dict
  "namespace" (include "springtide.trainNamespace" .)
  "pool" (include "springtide.fullname" .)
  "jobs_claim" (include "springtide.jobsClaim" .)
  "gpu_resources" $train.gpuResources
  "node_selector" $train.nodeSelector
  "topology" $train.topology
  "environment_label" $train.environmentLabel
  "gpu_type_labels" $train.gpuTypeLabels
  "tolerations" $train.tolerations
  "cpu_per_gpu" $train.cpuPerGpu
  "memory_per_gpu" $train.memoryPerGpu
  "rdma_resources" $train.rdma.resources
  "rdma_networks" $train.rdma.networks
  "lost_after" $train.lostAfter
  "bind_directly" $train.bindDirectly
  "shared_memory" $train.sharedMemory
  "sessions" (not (empty (include "springtide.terminals" .)))
  "run_as" (ternary nil (int $train.runAsUser) .Values.assignedUsers)
  "fs_group" (ternary nil (int $train.fsGroup) .Values.assignedUsers)
  "home_path" .Values.notebooks.storage.path
  "home" $train.home
  "image_pull_policy" .Values.images.notebook.pullPolicy
  "image_pull_secrets" .Values.imagePullSecrets
  "network_policy" .Values.networkPolicy.enabled
}}
{{- with include "springtide.priorityClass.train" . }}
{{- $_ := set $kubernetes "priority_class" . }}
{{- end }}
{{- with $train.diskLimit }}{{ $_ := set $kubernetes "disk_limit" . }}{{ end }}
{{- with $train.podTemplate }}{{ $_ := set $kubernetes "pod_template" . }}{{ end }}
{{- with $train.projectPodTemplates }}{{ $_ := set $kubernetes "project_pod_templates" . }}{{ end }}
{{- if $train.devices.enabled }}
{{- $_ := set $kubernetes "device_class" $train.devices.deviceClass }}
{{- $_ := set $kubernetes "device_driver" $train.devices.driver }}
{{- $_ := set $kubernetes "notebook_namespace" .Release.Namespace }}
{{- end }}
{{- if $train.nodeGroups }}
{{- $groups := list }}
{{- range $train.nodeGroups }}
{{- $group := dict
  "name" .name
  "gpu_type" .gpuType
  "gpus" (int .gpus)
  "max_nodes" (int .maxNodes)
  "node_selector" .nodeSelector
  "tolerations" (default list .tolerations)
}}
{{- with .resource }}{{- $_ := set $group "resource" . }}{{- end }}
{{- with .cpus }}{{- $_ := set $group "cpus" . }}{{- end }}
{{- with .memory }}{{- $_ := set $group "memory" . }}{{- end }}
{{- with .rdma }}{{- $_ := set $group "rdma" (int .) }}{{- end }}
{{- $groups = append $groups $group }}
{{- end }}
{{- $_ := set $kubernetes "node_groups" $groups }}
{{- $_ := set $kubernetes "placeholder_image" $train.placeholders.image }}
{{- with include "springtide.priorityClass.placeholders" . }}
{{- $_ := set $kubernetes "placeholder_priority_class" . }}
{{- end }}
{{- end }}
{{- if .Values.agent.enabled }}
{{- $_ := set $kubernetes "agent_port" (int .Values.agent.port) }}
{{- $_ := set $kubernetes "agent_namespace" (include "springtide.agentNamespace" .) }}
{{- $_ := set $kubernetes "agent_labels" (include "springtide.selector" (list . "agent") | fromYaml) }}
{{- $_ := set $kubernetes "agent_token_file" "/etc/springtide-agent/token" }}
{{- end }}
{{- if not .Values.nodes.list }}
{{- $_ := set $kubernetes "static_nodes" .Values.nodes.static }}
{{- end }}
{{- $settings := dict
  "executor" "kubernetes"
  "kubernetes" $kubernetes
  "images" (include "springtide.images" . | fromJsonArray)
  "projects" .Values.service.projects
  "state_dir" "/var/lib/springtide"
  "database_url" "sqlite:////var/lib/springtide-store/springtide.sqlite"
  "ip" "0.0.0.0"
  "port" (int .Values.service.port)
  "jobs_url" (include "springtide.jobsUrl" .)
}}
{{- if not (kindIs "invalid" .Values.service.webhookHosts) }}
{{- $_ := set $settings "webhook_hosts" .Values.service.webhookHosts }}
{{- end }}
{{- $datasets := dict }}
{{- range $name, $dataset := .Values.datasets }}
{{- $declared := dict "claim" $dataset.claim "sub_path" (default "" $dataset.subPath) }}
{{- if hasKey $dataset "projects" }}
{{- $_ := set $declared "projects" $dataset.projects }}
{{- end }}
{{- $_ := set $datasets $name $declared }}
{{- end }}
{{- $_ := set $settings "datasets" $datasets }}
{{- with .Values.secrets }}{{ $_ := set $settings "secrets" . }}{{ end }}
{{- with .Values.service.smtp }}
{{- if .server }}
{{- $_ := set $settings "smtp_server" .server }}
{{- with .security }}{{- $_ := set $settings "smtp_security" . }}{{- end }}
{{- $_ := set $settings "smtp_user" .user }}
{{- $_ := set $settings "email_from" .from }}
{{- $_ := set $settings "email_address" .address }}
{{- if .existingSecret }}
{{- $_ := set $settings "smtp_password_file" "/etc/springtide-smtp/password" }}
{{- end }}
{{- end }}
{{- end }}
{{- with include "springtide.serviceHosts" . | fromJsonArray }}
{{- $_ := set $settings "allowed_hosts" . }}
{{- end }}
{{- if .Values.trainJobs.enabled }}
{{- $all := list "*" }}
{{- if not .Values.trainJobs.allNamespaces }}
{{- $all = include "springtide.trainJobNamespaces" . | fromJsonArray }}
{{- end }}
{{- $_ := set $settings "train_jobs" $all }}
{{- if .Values.trainJobs.people.enabled }}
{{- $_ := set $settings "springtide_job_policy" (printf "%s-springtidejobs" (include "springtide.clusterName" .)) }}
{{- $_ := set $settings "train_job_policy" (printf "%s-train-jobs" (include "springtide.clusterName" .)) }}
{{- end }}
{{- end }}
{{- range $setting, $value := .Values.service.settings }}
{{- $_ := set $settings $setting $value }}
{{- end }}
{{- $settings | toPrettyJson }}
{{- end }}

{{/* What the hub is configured with before hub.config, by class and setting, as JSON. */}}
{{- define "springtide.hubDefaults" -}}
{{- $notebooks := .Values.notebooks }}
{{- $image := include "springtide.image" (list . .Values.images.notebook) }}
{{- $home := "home-{user_server}" }}
{{- $labels := dict
  "app.kubernetes.io/name" (include "springtide.name" .)
  "app.kubernetes.io/instance" .Release.Name
  "app.kubernetes.io/managed-by" "jupyterhub"
}}
{{- $hub := dict
  "base_url" (include "springtide.baseUrl" .)
  "hub_bind_url" "http://0.0.0.0:8081"
  "hub_connect_url" (include "springtide.hubUrl" .)
  "db_url" "sqlite:////srv/jupyterhub/jupyterhub.sqlite"
  "cleanup_servers" false
  "last_activity_interval" 15
  "authenticator_class" "shared-password"
  "spawner_class" "kubespawner.KubeSpawner"
}}
{{- with include "springtide.subdomainHost" . }}
{{- $_ := set $hub "subdomain_host" . }}
{{- end }}
{{- $spawner := dict
  "namespace" .Release.Namespace
  "image" $image
  "image_pull_policy" .Values.images.notebook.pullPolicy
  "image_pull_secrets" .Values.imagePullSecrets
  "common_labels" $labels
  "cpu_guarantee" $notebooks.cpu.guarantee
  "cpu_limit" $notebooks.cpu.limit
  "mem_guarantee" $notebooks.memory.guarantee
  "mem_limit" $notebooks.memory.limit
  "node_selector" $notebooks.nodeSelector
  "tolerations" $notebooks.tolerations
  "uid" (ternary nil (int .Values.train.runAsUser) .Values.assignedUsers)
  "fs_gid" (ternary nil (int .Values.train.fsGroup) .Values.assignedUsers)
  "profile_list" $notebooks.profiles
}}
{{- with include "springtide.priorityClass.notebooks" . }}
{{- $_ := set $spawner "priority_class_name" . }}
{{- end }}
{{- if $notebooks.storage.enabled }}
{{- $_ := set $spawner "storage_pvc_ensure" true }}
{{- $_ := set $spawner "pvc_name_template" $home }}
{{- $_ := set $spawner "storage_capacity" $notebooks.storage.size }}
{{- $_ := set $spawner "storage_access_modes" $notebooks.storage.accessModes }}
{{- with $notebooks.storage.storageClassName }}
{{- $_ := set $spawner "storage_class" . }}
{{- end }}
{{- $claim := dict "claimName" $home }}
{{- $_ := set $spawner "volumes" (list (dict "name" "home" "persistentVolumeClaim" $claim)) }}
{{- $_ := set $spawner "volume_mounts" (list (dict "name" "home" "mountPath" $notebooks.storage.path)) }}
{{- end }}
{{- dict
  "JupyterHub" $hub
  "ConfigurableHTTPProxy" (dict "should_start" false "api_url" (include "springtide.proxyApiUrl" .))
  "Authenticator" (dict "admin_users" .Values.hub.admins)
  "SharedPasswordAuthenticator" (dict
    "allow_all" true
    "admin_users" (default (list "admin") .Values.hub.admins)
  )
  "Spawner" (dict
    "default_url" $notebooks.defaultUrl
    "start_timeout" (int $notebooks.startTimeout)
    "http_timeout" (int $notebooks.startTimeout)
    "environment" $notebooks.extraEnv
  )
  "BuildQuota" (dict "default_gpus" (int $notebooks.defaultGpus) "datasets" $notebooks.datasets)
  "Springtide" (merge
    (dict "stop_idle_workspaces" (default false .Values.service.settings.stop_idle_workspaces))
    (pick .Values.service.settings "group_rules")
  )
  "KubeSpawner" $spawner
  "KubeBuildSpawner" (dict
    "gpu_resources" .Values.train.gpuResources
    "build_nodes" (dict .Values.train.environmentLabel "build")
  )
  | toPrettyJson
}}
{{- end }}

{{/* What the chart's hub is configured with about people, for the service: by class and setting, as JSON. */}}
{{- define "springtide.hubPeople" -}}
{{- $people := dict }}
{{- if .Values.hub.enabled }}
{{- $config := mergeOverwrite (include "springtide.hubDefaults" . | fromJson) (deepCopy .Values.hub.config) }}
{{- range $class, $settings := $config }}
{{- if or (eq $class "JupyterHub") (hasSuffix "Authenticator" $class) }}
{{- $_ := set $people $class (pick $settings "load_groups" "load_roles" "manage_groups" "admin_users") }}
{{- end }}
{{- end }}
{{- end }}
{{- $people | toPrettyJson }}
{{- end }}
