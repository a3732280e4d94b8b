package registry

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// checkCloud checks the shape of a locator whose backend is not built in yet, so that
// what is accepted today still is when it will be.
func checkCloud(kind BackendType, locator string) error {
	ok := false
	switch path, query, hasQuery := strings.Cut(locator, "?"); kind {
	case Azure:
		ok = isAzure(path, query, hasQuery)
	case AWS:
		ok = isAWS(locator, path, query, hasQuery)
	case GCP:
		ok = isGCP(path, query, hasQuery)
	case Consul:
		ok = isConsul(path, query, hasQuery)
	}
	if ok {
		return nil
	}
	return fmt.Errorf("%q: want %s", locator, cloudShape(kind))
}

func cloudShape(kind BackendType) string {
	switch kind {
	case Azure:
		return "an ARM resource ID (/subscriptions/<id>/resourceGroups/<group>/providers/…) of a scale set, virtual machine, network interface or load balancer, or of a resource group with ?tag.<key>=<value>"
	case AWS:
		return "an ARN of an auto scaling group, target group or Cloud Map service, or ec2://<region>?tag.<key>=<value>"
	case GCP:
		return "projects/<project>/zones/<zone>/instanceGroups/<group>, …/regions/<region>/…, or …/instances?label.<key>=<value>"
	}
	return "<service> or <service>?dc=&tag=&peer=&partition="
}

// isAzure takes resource IDs, which ARM compares without regard to case. The proposal
// (first seed) writes them with a leading /resource.
func isAzure(path, query string, hasQuery bool) bool {
	path = strings.ToLower(path)
	if rest, ok := strings.CutPrefix(path, "/resource/"); ok {
		path = "/" + rest
	}
	if hasQuery {
		return matches(path, "/subscriptions/*/resourcegroups/*") && hasSelectors(query, "tag.")
	}
	const providers = "/subscriptions/*/resourcegroups/*/providers/"
	return slices.ContainsFunc([]string{
		"microsoft.compute/virtualmachinescalesets/*", "microsoft.compute/virtualmachines/*",
		"microsoft.network/networkinterfaces/*", "microsoft.network/loadbalancers/*",
	}, func(resource string) bool { return matches(path, providers+resource) })
}

// isAWS takes arn:partition:service:region:account:resource.
func isAWS(locator, path, query string, hasQuery bool) bool {
	if region, ok := strings.CutPrefix(path, "ec2://"); ok {
		return region != "" && !strings.Contains(region, "/") && hasQuery && hasSelectors(query, "tag.")
	}
	parts := strings.SplitN(locator, ":", 6)
	if len(parts) < 6 || parts[0] != "arn" || slices.Contains(parts[1:], "") {
		return false
	}
	switch resource := parts[5]; parts[2] {
	case "autoscaling":
		return strings.HasPrefix(resource, "autoScalingGroup:") && strings.Contains(resource, ":autoScalingGroupName/")
	case "elasticloadbalancing":
		return matches(resource, "targetgroup/*/*")
	case "servicediscovery":
		return matches(resource, "service/*")
	}
	return false
}

func isGCP(path, query string, hasQuery bool) bool {
	if hasQuery {
		return (matches(path, "projects/*/zones/*/instances") || matches(path, "projects/*/regions/*/instances")) && hasSelectors(query, "label.")
	}
	return matches(path, "projects/*/zones/*/instanceGroups/*") || matches(path, "projects/*/regions/*/instanceGroups/*")
}

func isConsul(service, query string, hasQuery bool) bool {
	if service == "" || strings.ContainsAny(service, "/ ") {
		return false
	}
	values, err := url.ParseQuery(query)
	for key := range values {
		if !slices.Contains([]string{"dc", "tag", "peer", "partition"}, key) {
			return false
		}
	}
	return err == nil && (!hasQuery || len(values) > 0)
}

// matches compares a path with a pattern part by part; "*" is any one part that is not
// empty.
func matches(path, pattern string) bool {
	parts, wants := strings.Split(path, "/"), strings.Split(pattern, "/")
	if len(parts) != len(wants) {
		return false
	}
	for i, want := range wants {
		if parts[i] != want && (want != "*" || parts[i] == "") {
			return false
		}
	}
	return true
}

// hasSelectors says whether a query has at least one prefix.key=value and nothing else.
func hasSelectors(query, prefix string) bool {
	values, err := url.ParseQuery(query)
	for key, list := range values {
		if !strings.HasPrefix(key, prefix) || key == prefix || slices.Contains(list, "") {
			return false
		}
	}
	return err == nil && len(values) > 0
}
