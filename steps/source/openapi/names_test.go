package openapi

import (
	"strings"
)

// nameTable has lines of: method path operationId name. The operations of one block are one document.
const nameTable = `
# GitHub
get / meta/root meta.root
get /app apps/get-authenticated app.get
get /apps/{app_slug} apps/get-by-slug app.get_by_app_slug
get /codes_of_conduct/{key} codes-of-conduct/get-conduct-code code_of_conduct.get
get /gists/{gist_id} gists/get gist.get
get /gists/{gist_id}/{sha} gists/get-revision gist.get_by_sha
get /gists/starred gists/list-starred gist.starred
get /repos/{owner}/{repo} repos/get repo.get
patch /repos/{owner}/{repo} repos/update repo.update
delete /repos/{owner}/{repo} repos/delete repo.delete
get /user/repos repos/list-for-authenticated-user repo.list
post /user/repos repos/create-for-authenticated-user repo.create
get /users/{username}/repos repos/list-for-user user.repo.list
get /user users/get-authenticated user.get
get /user/{account_id} users/get-by-id user.get_by_account_id
get /users/{username} users/get-by-username user.get_by_username
get /user/starred activity/list-repos-starred-by-authenticated-user user.starred.list
get /repos/{owner}/{repo}/issues/{issue_number} issues/get repo.issue.get
get /repos/{owner}/{repo}/issues/events issues/list-events-for-repo repo.issue.event.list
get /repos/{owner}/{repo}/issues/{issue_number}/events issues/list-events repo.issue.event.list_by_issue_number
put /repos/{owner}/{repo}/issues/{issue_number}/labels issues/set-labels repo.issue.label.bulk_replace
put /repos/{owner}/{repo}/pulls/{pull_number}/merge pulls/merge repo.pull.merge
get /repos/{owner}/{repo}/readme repos/get-readme repo.readme.get
get /repos/{owner}/{repo}/compare/{base}...{head} repos/compare-commits repo.compare.get
post /repos/{owner}/{repo}/check-runs checks/create repo.check_run.create
post /repos/{owner}/{repo}/merge-upstream repos/merge-upstream repo.merge_upstream
post /repos/{owner}/{repo}/actions/runs/{run_id}/rerun actions/re-run-workflow repo.action.run.rerun
get /repos/{owner}/{repo}/actions/caches actions/get-actions-cache-list repo.action.cache.list
get /search/code search/code search.code.get

# Kubernetes
get /api/ getCoreAPIVersions core_api_version.get
get /api/v1/namespaces listCoreV1Namespace namespace.list
get /api/v1/namespaces/{namespace}/pods listCoreV1NamespacedPod namespace.pod.list
get /api/v1/pods listCoreV1PodForAllNamespaces pod.list
delete /api/v1/namespaces/{namespace}/pods deleteCoreV1CollectionNamespacedPod namespace.pod.bulk_delete
patch /api/v1/namespaces/{namespace}/pods/{name} patchCoreV1NamespacedPod namespace.pod.update
post /api/v1/namespaces/{namespace}/pods/{name}/eviction createCoreV1NamespacedPodEviction namespace.pod.eviction
get /api/v1/namespaces/{namespace}/pods/{name}/log readCoreV1NamespacedPodLog namespace.pod.log.get
get /api/v1/namespaces/{namespace}/pods/{name}/proxy connectCoreV1GetNamespacedPodProxy namespace.pod.proxy.get
get /api/v1/namespaces/{namespace}/pods/{name}/proxy/{path} connectCoreV1GetNamespacedPodProxyWithPath namespace.pod.proxy.get_by_path
head /api/v1/namespaces/{namespace}/pods/{name}/proxy connectCoreV1HeadNamespacedPodProxy namespace.pod.proxy.head
get /api/v1/watch/namespaces/{namespace}/pods/{name} watchCoreV1NamespacedPod watch.namespace.pod.get
put /apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale replaceAppsV1NamespacedDeploymentScale namespace.deployment.scale.replace
get /apis/apps/v1/deployments listAppsV1DeploymentForAllNamespaces deployment.list
get /apis/autoscaling/v1/horizontalpodautoscalers listAutoscalingV1 horizontalpodautoscaler.list
get /apis/autoscaling/v2/horizontalpodautoscalers listAutoscalingV2 v2.horizontalpodautoscaler.list
get /api/v1/namespaces/{namespace}/events listCoreV1NamespacedEvent namespace.event.list
get /apis/events.k8s.io/v1/namespaces/{namespace}/events listEventsV1NamespacedEvent events_k8s_io.namespace.event.list
get /apis/networking.k8s.io/v1/ingressclasses/{name} readNetworkingV1IngressClass ingressclass.get

# NetBox
get /api/dcim/devices/ dcim_devices_list device.list
post /api/dcim/devices/ dcim_devices_create device.create
put /api/dcim/devices/ dcim_devices_bulk_update device.bulk_replace
patch /api/dcim/devices/ dcim_devices_bulk_partial_update device.bulk_update
delete /api/dcim/devices/ dcim_devices_bulk_destroy device.bulk_delete
get /api/dcim/devices/{id}/ dcim_devices_retrieve device.get
put /api/dcim/devices/{id}/ dcim_devices_update device.replace
patch /api/dcim/devices/{id}/ dcim_devices_partial_update device.update
delete /api/dcim/devices/{id}/ dcim_devices_destroy device.delete
post /api/dcim/devices/{id}/render-config/ dcim_devices_render_config_create device.render_config
get /api/dcim/device-types/ dcim_device_types_list device_type.list
get /api/dcim/device-types/{id}/ dcim_device_types_retrieve device_type.get
get /api/dcim/interfaces/ dcim_interfaces_list interface.list
get /api/virtualization/interfaces/ virtualization_interfaces_list virtualization.interface.list
get /api/dcim/virtual-chassis/ dcim_virtual_chassis_list virtual_chassis.list
post /api/ipam/prefixes/{id}/available-ips/ ipam_prefixes_available_ips_create prefix.available_ip.create
get /api/ipam/ip-addresses/{id}/ ipam_ip_addresses_retrieve ip_address.get
get /api/circuits/circuits/ circuits_circuits_list circuit.list
post /api/users/tokens/provision/ users_tokens_provision_create token.provision
get /api/status/ status_retrieve status.get

# Stripe
get /v1/customers GetCustomers customer.list
post /v1/customers PostCustomers customer.create
get /v1/customers/search GetCustomersSearch customer.search
post /v1/customers/{customer} PostCustomersCustomer customer.update
delete /v1/customers/{customer} DeleteCustomersCustomer customer.delete
post /v1/charges/{charge}/capture PostChargesChargeCapture charge.capture
get /v1/balance GetBalance balance.get
get /v1/billing_portal/sessions GetA session.list
get /v1/checkout/sessions GetB checkout.session.list
get /v1/accounts/{account}/people GetC account.person.list
get /v1/accounts/{account}/persons GetD accounts.persons.list

# many styles
post /chat.postMessage chat_postMessage chat.post_message
get /admin.users.list admin_users_list admin.user.list
get /users.list users_list user.list
get /admin.apps.list admin_apps_list admin.app.list
get /admin/teams - admin.team.list
get /teams - team.list
get /apis/日本 - apis.get
get /2010-04-01/Accounts/{AccountSid}/Calls/{Sid}.json FetchCall account.call.get
get /2010-04-01/Accounts/{AccountSid}/Calls.json ListCall account.call.list
post /#X-Amz-Target=DynamoDB_20120810.BatchGetItem BatchGetItem item.batch_get
get /{Bucket}#acl GetBucketAcl bucket_acl.get
put /{Bucket}/{Key} PutObject object.put
get /v1/{name} firestore.projects.databases.documents.get project.database.document.get
post /v1/projects/{project}:setIamPolicy x.projects.setIamPolicy project.set_iam_policy
post /v1/{name}:cancel x.projects.operations.cancel project.operation.cancel
get /users/{user-id}/calendarView(start='{start}') users.View user.calendar_view.get
get /pets/findByStatus findPetsByStatus pet.find_by_status
post /pets/bulk bulkCreate pet.bulk_create
get /wiki/rest/pages pages wiki.rest.page.list
get /a/b - a.b.get_2
get /A/B - a.b.get
trace /a/b - a.b.trace
`

var someSegments = []string{"users", "user", "repos", "v1", "v2", "api", "apis", "apps", "{id}", "{name}", "search", "items", "item",
	"Items", "config", "a.b", "x-y", "日本",
	"{a}:cancel", "{id}.json", "-", strings.Repeat("long", 30)}
