package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// AssetsVariable names the folder that controller developers keep their test binaries in.
const AssetsVariable = "KUBEBUILDER_ASSETS"

// installed finds a tool on this machine. CoreDNS is always our own build: the tests
// measure against one known version.
func installed(t Tool) (path, origin string) {
	if t != KubeAPIServer && t != Etcd {
		return "", ""
	}
	if dir := os.Getenv(AssetsVariable); dir != "" {
		path := filepath.Join(dir, string(t))
		if isFile(path) && fits(t, path) {
			return path, AssetsVariable
		}
	}
	path, err := exec.LookPath(string(t))
	if err != nil || !fits(t, path) {
		return "", ""
	}
	return path, "PATH"
}

// fits tells whether an installed tool is new enough: an etcd before 3.5 has no progress
// requests on watches, without which the API server has no WatchList, and tests would see
// the product's fallback only.
func fits(t Tool, path string) bool {
	if t != Etcd {
		return true
	}
	out, err := exec.Command(path, "--version").Output()
	if err != nil {
		return false
	}
	found := regexp.MustCompile(`etcd Version: (\d+)\.(\d+)`).FindSubmatch(out)
	if found == nil {
		return false
	}
	major, _ := strconv.Atoi(string(found[1])) // digits, by the pattern
	minor, _ := strconv.Atoi(string(found[2]))
	return major > 3 || major == 3 && minor >= 5
}
