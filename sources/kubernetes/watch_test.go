package kubernetes

import (
	"fmt"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cluster is a small one: three services, one slice each.
func cluster() []metav1.Object {
	var objects []metav1.Object
	for i := range 3 {
		name := fmt.Sprint("s", i)
		objects = append(objects, newService(name), newSlice(name, name+"-a", fmt.Sprint("192.0.2.", i+1)))
	}
	return objects
}

var clusterText = []string{"shop/s0 [s0-a 192.0.2.1]", "shop/s1 [s1-a 192.0.2.2]", "shop/s2 [s2-a 192.0.2.3]"}

// The way of an object through both ways to list, and HTTP versions.
func TestLiveFollowsTheCluster(t *testing.T) {
	for _, tc := range []struct {
		name      string
		watchList bool
		tls       bool
	}{{"initial events", true, true}, {"list in pages", false, true}, {"HTTP/1.1", true, false}} {
		t.Run(tc.name, func(t *testing.T) {
			api := newFakeAPI(t, cluster()...).start(tc.tls)
			api.watchList = tc.watchList
			r := runSource(t, api.server.URL).untilSynced(t)
			assert.Equal(t, 3, r.count(), "one update a service")
			r.untilText(t, clusterText...)
			if tc.watchList {
				assert.Zero(t, api.count("list"))
			} else {
				assert.Equal(t, 1, api.count("list services"))
				assert.Equal(t, 1, api.count("page services"), "pages of two")
			}

			api.put(newSlice("s0", "s0-a", "192.0.2.1", "192.0.2.9"))
			r.untilText(t, "shop/s0 [s0-a 192.0.2.1 192.0.2.9]", clusterText[1], clusterText[2])
			api.put(newService("s3"))
			api.delete(newService("s0"), newSlice("s1", "s1-a"))
			r.untilText(t, "shop/s1 ", clusterText[2], "shop/s3 ")
			assert.WithinDuration(t, time.Now(), r.status().LastSuccess, 20*time.Second)
			assert.Empty(t, r.status().Error)
			assert.Zero(t, r.logs.count("level="), "nothing to say about a good day")
		})
	}
}

func TestEmptyClusterIsSynced(t *testing.T) {
	r := runSource(t, newFakeAPI(t).start(false).server.URL).untilSynced(t)
	assert.Zero(t, r.count())
}

// FAULTS 7, CASES C100–C103: page n fails; nothing of a list that is not whole is seen.
func TestFailingPage(t *testing.T) {
	api := newFakeAPI(t, cluster()...).start(false)
	api.watchList = false
	var healed atomic.Bool
	api.setFault(func(w http.ResponseWriter, _ *http.Request, what string) bool {
		if what != "page services" || healed.Load() {
			return false
		}
		respond(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcd is tired")
		return true
	})
	r := runSource(t, api.server.URL)
	r.untilError(t, "etcd is tired")
	api.until("tried again", func() bool { return len(api.requests) > 20 })
	assert.Zero(t, r.count())
	assert.False(t, r.status().Synced)
	healed.Store(true)
	r.untilSynced(t).untilText(t, clusterText...)
}

// CASES C100–C103: 410 with a continue token makes the list start anew, in one piece.
func TestExpiredContinueToken(t *testing.T) {
	api := newFakeAPI(t, cluster()...).start(false)
	api.watchList = false
	api.setFault(func(w http.ResponseWriter, _ *http.Request, what string) bool {
		if what != "page services" {
			return false
		}
		respond(w, http.StatusGone, metav1.StatusReasonExpired, "the provided continue parameter is too old")
		return true
	})
	r := runSource(t, api.server.URL).untilSynced(t)
	r.untilText(t, clusterText...)
	assert.Equal(t, 3, r.count())
	assert.Equal(t, 1, api.count("page services"))
	assert.Zero(t, r.logs.count("level=WARN"))
}

// CASES C100, FAULTS 7 and 9: 410 on the watch; what went meanwhile is gone, and only what
// changed is pushed.
func TestExpiredWatch(t *testing.T) {
	for _, watchList := range []bool{true, false} {
		t.Run(fmt.Sprint("watchList ", watchList), func(t *testing.T) {
			api := newFakeAPI(t, cluster()...).start(false)
			api.watchList = watchList
			r := runSource(t, api.server.URL).untilSynced(t)
			before := r.count()
			api.setFault(func(w http.ResponseWriter, _ *http.Request, what string) bool {
				if what == "watch services" || what == "watch endpointslices" {
					api.mu.Lock()
					compacted := api.compacted
					api.mu.Unlock()
					if compacted == 0 { // not before the changes are made
						respond(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "wait")
						return true
					}
				}
				return false
			})
			api.endWatches()
			api.delete(newService("s0"), newSlice("s0", "s0-a"))
			api.put(newSlice("s1", "s1-a", "192.0.2.9"))
			api.forget()
			r.untilText(t, "shop/s1 [s1-a 192.0.2.9]", clusterText[2])
			r.untilSynced(t)
			for _, u := range r.since(before) {
				assert.NotEqual(t, "s2", u.Key.Name, "it did not change")
			}
			assert.LessOrEqual(t, r.count(), before+3, "s1 once; s0 once, or twice where its slice goes first")
		})
	}
}

// CASES C109, FAULTS 9: watches that end again and again list nothing, and push nothing
// but what changes.
func TestWatchEndsAgainAndAgain(t *testing.T) {
	api := newFakeAPI(t, cluster()...).start(false)
	r := runSource(t, api.server.URL).untilSynced(t)
	lists, before := api.lists(), r.count()
	for i := range 10 {
		// Something happens: the reflector lists anew after a watch that was short and silent.
		api.put(newService("s0", func(s *corev1.Service) { s.Spec.Ports[0].Port = int32(1000 + i) }),
			newSlice("s1", "s1-a", fmt.Sprint("192.0.2.", 100+i)))
		r.until(t, "changes", func() bool { return r.count() == before+2*(i+1) })
		api.endWatches()
		api.until("opened again", func() bool {
			return api.askedLocked("watch services") == i+1 && api.askedLocked("watch endpointslices") == i+1
		})
	}
	assert.Equal(t, before+20, r.count())
	assert.Equal(t, lists, api.lists())
	assert.Empty(t, r.status().Error)
}

// CASES C101, C100–C103: what a watch may bring that is not an event as it should be.
func TestOddEvents(t *testing.T) {
	tests := []struct {
		name, line string
		ends       bool // the stream cannot be read on after it
	}{
		{"half an event", `{"type":"ADDED","object":{"kind":"Service","apiV`, true},
		{"unknown type", `{"type":"RENAMED","object":{"kind":"Service","apiVersion":"v1","metadata":{"name":"x","namespace":"shop"}}}` + "\n", true},
		{"not JSON", "rubbish\n", true},
		{"another kind", `{"type":"ADDED","object":{"kind":"Endpoints","apiVersion":"v1","metadata":{"name":"x","namespace":"shop"}}}` + "\n", false},
		{"nil everything", `{"type":"ADDED","object":{"kind":"Service","apiVersion":"v1"}}` + "\n", false},
		{"null fields", `{"type":"MODIFIED","object":{"kind":"Service","apiVersion":"v1","metadata":null,"spec":null,"status":null}}` + "\n", false},
		{"bookmark", `{"type":"BOOKMARK","object":{"kind":"Service","apiVersion":"v1","metadata":{"resourceVersion":"99"}}}` + "\n", false},
		{"deleted object that was never there", `{"type":"DELETED","object":{"kind":"Service","apiVersion":"v1","metadata":{"name":"x","namespace":"shop","resourceVersion":"99"}}}` + "\n", false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			api := newFakeAPI(t, cluster()...).start(false)
			r := runSource(t, api.server.URL).untilSynced(t)
			before := r.count()
			api.raw(kindService, tc.line)
			if tc.ends {
				api.forget()
				api.endWatches()
			}
			api.put(newService("s3"))
			r.untilText(t, append(clusterText, "shop/s3 ")...)
			assert.Equal(t, before+1, r.count())
		})
	}
}

// CASES C101: an object that is bad in a list is skipped and counted, the others live.
func TestBadObjectInAList(t *testing.T) {
	for _, watchList := range []bool{true, false} {
		api := newFakeAPI(t, append(cluster(), newService("Bad_Name"))...).start(false)
		api.watchList = watchList
		r := runSource(t, api.server.URL).untilSynced(t)
		r.untilText(t, clusterText...)
		r.until(t, "skip", func() bool { return r.status().Skipped == 1 })
		assert.Contains(t, r.status().LastSkip, "Bad_Name")
		assert.Equal(t, 1, r.logs.count("Bad_Name"))
	}
}

// CASES C100–C103: a list without a resourceVersion.
func TestListWithoutResourceVersion(t *testing.T) {
	api := newFakeAPI(t, newService("api")).start(false)
	api.watchList = false
	api.setFault(func(w http.ResponseWriter, _ *http.Request, what string) bool {
		if what != "list services" {
			return false
		}
		_, _ = w.Write(toJSON(t, map[string]any{"kind": "ServiceList", "apiVersion": "v1", "metadata": map[string]string{},
			"items": []any{newService("api")}}))
		return true
	})
	r := runSource(t, api.server.URL).untilSynced(t)
	api.put(newService("web"))
	r.untilText(t, "shop/api ", "shop/web ")
}

// FAULTS 10: one kind is forbidden.
func TestForbiddenKind(t *testing.T) {
	api := newFakeAPI(t, cluster()...).start(false)
	var allowed atomic.Bool
	var refused atomic.Int32
	api.setFault(func(w http.ResponseWriter, _ *http.Request, what string) bool {
		if allowed.Load() || !isAbout(what, kindSlice) {
			return false
		}
		if what == "list endpointslices" {
			refused.Add(1)
		}
		respond(w, http.StatusForbidden, metav1.StatusReasonForbidden, `endpointslices.discovery.k8s.io is forbidden: User "meshdns" cannot list`)
		return true
	})
	r := runSource(t, api.server.URL)
	r.untilError(t, `waiting for the first list of endpointslices: list endpointslices: `)
	assert.Contains(t, r.status().Error, `User "meshdns" cannot list`)
	api.until("tried again", func() bool { return refused.Load() >= 3 })
	assert.Zero(t, r.count())
	assert.False(t, r.status().Synced)
	assert.InDelta(t, int(refused.Load()), r.logs.count("level=WARN"), 1, "one line a step")
	allowed.Store(true)
	r.untilSynced(t).untilText(t, clusterText...)
	assert.Equal(t, 1, r.logs.count("can be read again"))
}

func isAbout(what string, k kind) bool {
	for _, verb := range []string{"list ", "page ", "watch "} {
		if what == verb+k.String() || what == verb+k.String()+" initial" {
			return true
		}
	}
	return false
}

// FAULTS 10: the token expires while all is well, and is good again later.
func TestExpiredToken(t *testing.T) {
	api := newFakeAPI(t, cluster()...).start(false)
	r := runSource(t, api.server.URL).untilSynced(t)
	before := r.count()
	var expired atomic.Bool
	expired.Store(true)
	api.setFault(func(w http.ResponseWriter, _ *http.Request, _ string) bool {
		if !expired.Load() {
			return false
		}
		respond(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
		return true
	})
	api.endWatches()
	r.untilError(t, "Unauthorized")
	assert.True(t, r.status().Synced)
	assert.Equal(t, before, r.count(), "data are kept")
	expired.Store(false)
	r.untilSynced(t)
	assert.Equal(t, before, r.count())
}

// FAULTS 1: the API dies and returns: data are kept, the reason is shown, and the watch
// goes on from where it was, without a list.
func TestServerDiesAndReturns(t *testing.T) {
	api := newFakeAPI(t, cluster()...).start(false)
	r := runSource(t, api.server.URL).untilSynced(t)
	// Something happens: the reflector lists anew after a watch that was short and silent.
	api.put(newService("s0", func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }), newSlice("s1", "s1-a", "192.0.2.8"))
	r.until(t, "changes", func() bool { return r.count() == 5 })
	before, lists := r.count(), api.lists()
	api.stop()
	r.untilError(t, "watch services:")
	r.untilError(t, "watch endpointslices:")
	assert.Contains(t, r.status().Error, "connection refused")
	assert.True(t, r.status().Synced)
	api.delete(newService("s0"))
	api.restart()
	r.untilText(t, "shop/s1 [s1-a 192.0.2.8]", clusterText[2])
	r.untilSynced(t)
	assert.Equal(t, before+1, r.count())
	assert.Equal(t, lists, api.lists())
}

// CASES C112: the API is not there at the start.
func TestServerIsNotThereAtTheStart(t *testing.T) {
	api := newFakeAPI(t, cluster()...).start(false)
	api.stop()
	r := runSource(t, api.server.URL)
	r.untilError(t, "waiting for the first list of services: ")
	r.untilError(t, "connection refused")
	api.restart()
	r.untilSynced(t).untilText(t, clusterText...)
}

func TestServerThatIsNoAPIServer(t *testing.T) {
	api := newFakeAPI(t, cluster()...).start(false)
	api.setFault(func(w http.ResponseWriter, _ *http.Request, _ string) bool {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html>captive portal</html>"))
		return true
	})
	r := runSource(t, api.server.URL)
	r.untilError(t, "list services: ")
	api.until("tried again", func() bool { return len(api.requests) > 20 })
	assert.False(t, r.status().Synced)
	assert.Zero(t, r.count())
	api.setFault(nil)
	r.untilSynced(t).untilText(t, clusterText...)
}

// Initial events that never come to their end are given up for a list in pages.
func TestInitialEventsBreakOff(t *testing.T) {
	api := newFakeAPI(t, cluster()...).start(false)
	api.setFault(func(w http.ResponseWriter, _ *http.Request, what string) bool {
		if what != "watch services initial" {
			return false
		}
		_, _ = w.Write(eventLine(t, "ADDED", kindService, newService("s0")))
		return true
	})
	r := runSource(t, api.server.URL).untilSynced(t)
	r.untilText(t, clusterText...)
	assert.Equal(t, maxUnfinished, api.count("watch services initial"))
}

// FAULTS 6 over HTTP: a relist is empty; a named removal is believed.
func TestEmptyRelistIsDoubted(t *testing.T) {
	api := newFakeAPI(t, cluster()...).start(false)
	r := runSource(t, api.server.URL).untilSynced(t)
	api.change(func() {
		api.objects[kindService] = map[key]metav1.Object{}
	})
	api.forget()
	api.endWatches()
	r.untilError(t, "list of services lacks 3 of 3")
	r.untilText(t, clusterText...)
	api.put(newService("s1"))
	api.delete(newService("s0"))
	r.untilText(t, clusterText[1:]...)
}

// FAULTS 8, CASES C103: the server no longer sends events, and nothing else is wrong.
func TestSilentWatchIsRenewed(t *testing.T) {
	api := newFakeAPI(t, cluster()...).start(false)
	api.deaf = true
	api.watchList = false
	r := runSource(t, api.server.URL, func(s *Source) { s.timing.silence = 200 * time.Millisecond })
	api.until("watches", func() bool { return api.streams == [numKinds]int{1, 1} })
	api.put(newService("s3"))
	api.change(func() { api.deaf = false })
	r.untilText(t, append(clusterText, "shop/s3 ")...)
	assert.NotZero(t, r.logs.count("nothing heard for"))
}

// A watch on which nothing happens ends by the server's clock, and that is a sign of life.
func TestWatchesAreConfirmed(t *testing.T) {
	api := newFakeAPI(t, cluster()...).start(false)
	api.watchList = false // a watch that brought the list may last longer
	r := runSource(t, api.server.URL, func(s *Source) { s.timing.watch = time.Second }).untilSynced(t)
	before, alive := r.count(), r.status().LastSuccess
	r.until(t, "signs of life", func() bool { return r.status().LastSuccess.Sub(alive) > 1500*time.Millisecond })
	assert.Equal(t, before, r.count())
	assert.Empty(t, r.status().Error)
}

func TestRunEndsWhateverTheServerDoes(t *testing.T) {
	release := make(chan struct{})
	for _, at := range []string{"watch services initial", "list services", "page services", "watch services"} {
		t.Run(at, func(t *testing.T) {
			api := newFakeAPI(t, cluster()...).start(true)
			api.watchList = at == "watch services initial"
			reached := make(chan struct{}, 10)
			api.setFault(func(_ http.ResponseWriter, r *http.Request, what string) bool {
				if what != at {
					return false
				}
				reached <- struct{}{}
				select {
				case <-release:
				case <-r.Context().Done():
				}
				return true
			})
			r := runSource(t, api.server.URL)
			<-reached
			r.stop()
		})
	}
	close(release)
}

func TestUnansweredRequestsAreGivenUp(t *testing.T) {
	api := newFakeAPI(t, cluster()...).start(false)
	var healed atomic.Bool
	api.setFault(func(_ http.ResponseWriter, r *http.Request, _ string) bool {
		if healed.Load() {
			return false
		}
		<-r.Context().Done()
		return true
	})
	r := runSource(t, api.server.URL, func(s *Source) { s.timing.request = 100 * time.Millisecond })
	r.untilError(t, "context deadline exceeded")
	healed.Store(true)
	r.untilSynced(t).untilText(t, clusterText...)
}

func TestKubeconfigIsReadAgain(t *testing.T) {
	east := newFakeAPI(t, newService("east")).start(true)
	west := newFakeAPI(t, newService("west")).start(true)
	path := filepath.Join(t.TempDir(), "config")
	r := runConfig(t, Config{Kubeconfig: path}) // not there yet
	r.untilError(t, "no such file")
	writeFile(t, path, "rubbish: [")
	r.untilError(t, "kubeconfig")
	kubeconfig(t, path, east.server.URL)
	r.untilSynced(t).untilText(t, "shop/east ")

	writeFile(t, path, "rubbish: [")
	r.untilError(t, "kubeconfig")
	east.put(newService("east2"))
	r.untilText(t, "shop/east ", "shop/east2 ") // the old access stays in use
	requests := east.count("watch")
	kubeconfig(t, path, east.server.URL)
	r.untilSynced(t)
	assert.Equal(t, requests, east.count("watch"), "the same access is no reason to begin anew")

	kubeconfig(t, path, west.server.URL)
	r.until(t, "the other server", func() bool { return r.service("shop/west") != "" })
	require.Eventually(t, func() bool { east.mu.Lock(); defer east.mu.Unlock(); return east.streams == [numKinds]int{} },
		10*time.Second, time.Millisecond, "no watch is left behind")
}

func TestTheCurrentContextIsKept(t *testing.T) {
	east := newFakeAPI(t, newService("east")).start(false)
	path := kubeconfig(t, filepath.Join(t.TempDir(), "config"), east.server.URL)
	r := runConfig(t, Config{Kubeconfig: path}).untilSynced(t)
	raw, err := loadKubeconfig(path)
	require.NoError(t, err)
	raw.Contexts["other"] = raw.Contexts["west"].DeepCopy()
	raw.Contexts["other"].Cluster = "nowhere"
	raw.CurrentContext = "other"
	writeKubeconfig(t, path, raw)
	// The next change is read after that one.
	writeFile(t, path, "rubbish: [")
	r.untilError(t, "kubeconfig")
	assert.Equal(t, 1, east.count("watch services"))
}

func TestEventLatency(t *testing.T) {
	api := newFakeAPI(t, cluster()...).start(true)
	r := runSource(t, api.server.URL).untilSynced(t)
	var total time.Duration
	const rounds = 200
	for i := range rounds {
		s := newService("s0", func(s *corev1.Service) { s.Spec.Ports[0].Port = int32(1000 + i) })
		before := r.count()
		start := time.Now()
		api.put(s)
		r.until(t, "update", func() bool { return r.count() > before })
		total += time.Since(start)
	}
	t.Logf("from the server's change to the sink: %v on average", total/rounds)
}
